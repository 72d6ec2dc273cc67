"""The packages that the operator and the kubectl plug-in need beyond `pip install muster`, and the message if one is
missing.

The packages are searched for without importing them, before any module that imports them.
"""

import importlib.util

PACKAGES = (
    "aiohttp",
    "cryptography",
    "kafka",
    "kopf",
    "kubernetes",
    "prometheus_client",
    "typing_extensions",
    "urllib3",
    "websocket",
    "yaml",
)
"""The packages of the extra `operator`, by their import names."""


def missing_packages() -> str | None:
    """One sentence that names the missing packages and what to install; None if nothing is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return (
        f"this needs the package{'s' if len(missing) > 1 else ''} {', '.join(missing)}: pip install 'muster[operator]'"
    )
