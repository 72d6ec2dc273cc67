"""Hook of mkdocs: makes pages of what is not Markdown below `docs/`, and leads links to them.

The documents are written to be read in the repository, where a link may name a source file or a folder. On the site a
source file has no page: its link becomes its path, as text. README and CONTRIBUTING become pages beside the others;
the folders `adr` and `examples` get an index. What it does not do: follow links to other hosts.
"""

import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
OUTSIDE = {"README.md": "about.md", "CONTRIBUTING.md": "contributing.md"}
"""Documents of the repository's top folder and their pages."""
FOLDERS = {"docs/adr": "adr/index.md", "docs/examples": "examples/index.md"}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def page_of(path: str) -> str | None:
    """The page of a file or folder, both as paths (of the repository, of the site); None when it has none."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path in FOLDERS:
        return FOLDERS[path]
    return path.removeprefix("docs/") if path.startswith("docs/") and path.endswith((".md", ".json")) else None


def joined(folder: PurePosixPath, target: str) -> str | None:
    """`target` seen from `folder`, as a path of the repository; None when it leads out of it."""
    parts = list(folder.parts)
    for part in PurePosixPath(target).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def led(markdown: str, source: str, page: str) -> str:
    """The text of the document `source`, whose page is `page`, with links between pages."""

    def one(found: re.Match[str]) -> str:
        path, mark, anchor = found["target"].partition("#")
        if not path or "://" in path:
            return found[0]
        named = joined(PurePosixPath(source).parent, path)
        if named is None or not (ROOT / named).exists():
            return found[0]  # mkdocs says that it leads nowhere
        to = page_of(named)
        if to is None:
            return found["text"] if found["text"].startswith("`") else f"{found['text']} (`{named}`)"
        up = "../" * (len(PurePosixPath(page).parts) - 1)
        return f"[{found['text']}]({up}{to}{mark}{anchor})"

    return LINK.sub(one, markdown)


def index_of_arguments() -> str:
    """A page with the title of each ADR."""
    lines = ["# Architecture decision records", ""]
    for file in sorted((ROOT / "docs/adr").glob("[0-9]*.md")):
        title = file.read_text().partition("\n")[0].lstrip("# ").strip()
        lines.append(f"* [{title}]({file.name})")
    return "\n".join(lines) + "\n"


def index_of_examples() -> str:
    """A page with the sources of all examples."""
    lines = ["# Examples", "", "Ordinary clients of Kafka; nothing of Muster is imported.", ""]
    for file in sorted((ROOT / "docs/examples").glob("*.py")):
        lines += [f"## {file.name}", "", "```python", file.read_text().rstrip("\n"), "```", ""]
    return "\n".join(lines)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds what is not Markdown below `docs/`."""
    made = {page: (ROOT / source).read_text() for source, page in OUTSIDE.items()}
    made |= {"adr/index.md": index_of_arguments(), "examples/index.md": index_of_examples()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads the links of one page."""
    where = page.file.src_uri
    source = next((name for name, made in OUTSIDE.items() if made == where), f"docs/{where}")
    return led(markdown, source, where)
