"""Whether a command line is one that the program has, without running it."""

import click
import typer

from hedgerow.cli.main import app


def check_command(words: list[str]) -> None:
    """Refuse verbs and options that are not known, missing arguments and values of a wrong type."""
    command, context, rest = typer.main.get_command(app), None, list(words)
    while isinstance(command, click.Group):
        context = click.Context(command, info_name="hedgerow", parent=context)
        assert rest, words
        name = rest.pop(0)
        if name.startswith("-"):
            assert name in ("--version", "--help"), words
            return
        command = command.get_command(context, name)
        assert command is not None, words
    command.make_context("hedgerow", rest, parent=context)
