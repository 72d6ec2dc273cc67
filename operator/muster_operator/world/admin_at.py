"""Where a coordinator's admin API is, and how it shows that it is that coordinator."""

from dataclasses import dataclass, field

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class SecuredAdmin:
    """https. As text the address alone."""

    address: str
    """host:port of the pod, by its address: names may be cached or not published yet."""
    name: str
    """The pod's DNS name, which its certificate covers."""
    ca: str = field(repr=False)
    """Certificates in PEM of the authorities that are trusted, and no others; "": they are not known."""

    @override
    def __str__(self) -> str:
        return self.address


AdminAt = str | SecuredAdmin
"""An address alone is one of plain HTTP."""
