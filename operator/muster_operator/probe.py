"""`muster probe URL`: does that endpoint answer 2xx? For `helm test`, and for containers without a shell or curl."""

import http.client
import urllib.error
import urllib.request
from typing import Annotated

import typer

BODY_BYTES_MAX = 4_096


def probe(
    url: Annotated[str, typer.Argument(help="http://host:port/path, as of /readyz")],
    timeout_seconds: Annotated[float, typer.Option(min=0.1, max=60.0)] = 5.0,
) -> None:
    """Send one request to an HTTP endpoint; exit with 0 if it answers 2xx, else with 1 and print the answer."""
    if not url.startswith(("http://", "https://")):
        typer.echo(f"{url!r} is no http address", err=True)
        raise typer.Exit(2)
    try:
        with urllib.request.urlopen(url, timeout=timeout_seconds) as answer:
            typer.echo(answer.read(BODY_BYTES_MAX).decode(errors="replace").strip() or "ok")
    except urllib.error.HTTPError as refusal:
        with refusal:
            body = refusal.read(BODY_BYTES_MAX).decode(errors="replace").strip()
        typer.echo(f"{url}: {refusal.code} {body}", err=True)
        raise typer.Exit(1) from None
    except (OSError, http.client.HTTPException) as error:
        typer.echo(f"{url}: {error}", err=True)
        raise typer.Exit(1) from None
