"""`python -m tests.pipeline.report.pictures [FOLDER]`: the screenshots of the documents, of a made-up fleet."""

import sys
import tempfile
from pathlib import Path

from tests.pipeline.report import large_fleet
from tests.pipeline.report.browser import HEIGHT, Look, Tab, opened

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pictures"
BYTES_MAX = 150_000
DESKTOP, PHONE = Look(width=1280, dark=False), Look(width=390, dark=True)
SHOTS = (
    ("report", "index.html", DESKTOP),
    ("report-phone", "index.html", PHONE),
    ("group", "groups/slow.html", DESKTOP),
)


def take(folder: Path, scratch: Path) -> None:
    """One WebP each, as high as a screen."""
    page = large_fleet.pages(scratch / "pages", 20_000)

    async def work(tab: Tab) -> None:
        await tab.first(large_fleet.YOUNG)
        for name, file, look in SHOTS:
            await tab.look_as(look)
            await tab.go((page.parent / file).as_uri())
            clip = {"x": 0, "y": 0, "width": look.width, "height": HEIGHT, "scale": 1}
            data = await tab.picture(format="webp", quality=70, clip=clip)
            assert len(data) <= BYTES_MAX, name
            (folder / f"{name}.webp").write_bytes(data)

    folder.mkdir(parents=True, exist_ok=True)
    opened(scratch, work)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER, Path(scratch))
