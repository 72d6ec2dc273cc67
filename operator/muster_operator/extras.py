"""What the operator and the kubectl plug-in need beyond a plain `pip install muster`, and the sentence where it lacks.

Packages are looked for, not imported, before anything that imports them is.
"""

import importlib.util

PACKAGES = (
    "aiohttp",
    "kafka",
    "kopf",
    "kubernetes",
    "prometheus_client",
    "typing_extensions",
    "urllib3",
    "websocket",
    "yaml",
)
"""What the extra `operator` brings, by the names that are imported."""


def missing_packages() -> str | None:
    """One sentence that names them and what to install; None if nothing is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return (
        f"this needs the package{'s' if len(missing) > 1 else ''} {', '.join(missing)}: pip install 'muster[operator]'"
    )
