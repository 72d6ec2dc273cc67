"""`python -m muster_pipeline …`, and `spark-submit …/__main__.py … --master submit`: the same commands."""

import typer

from muster_pipeline.cli.commands import add_commands

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
add_commands(app)

if __name__ == "__main__":
    app(prog_name="muster pipeline")
