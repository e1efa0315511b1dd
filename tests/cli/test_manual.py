"""Every verb is in the manual, in a panel, with what it needs and an example that is a command."""

import re
import shlex

import click
import pytest
import typer

from hedgerow.cli.main import app
from hedgerow.cli.manual import MANUAL, entries
from tests.cli.test_main import run
from tests.command_lines import check_command

PROGRAM = typer.main.get_command(app)


def verbs(command: click.Command, name: str = "") -> list[str]:
    if not isinstance(command, click.Group):
        return [name]
    return [
        verb for word, inner in command.commands.items() for verb in verbs(inner, f"{name} {word}")
    ]


def test_the_manual_has_every_verb_once() -> None:
    assert sorted(name for name, _, _ in entries()) == sorted(map(str.strip, verbs(PROGRAM)))


@pytest.mark.parametrize(("name", "example"), [(name, one.example) for name, _, one in entries()])
def test_examples_are_commands_of_their_verb(name: str, example: str) -> None:
    words = shlex.split(example)
    assert words[: 1 + len(name.split())] == ["hedgerow", *name.split()]
    check_command(words[1:])


def test_help_has_the_panels_in_order_and_each_verb_its_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run("--help")[1]
    assert re.findall(r"╭─ (.+?) ─", text) == ["Options", *MANUAL]
    for name, _, entry in entries():
        shown = " ".join(run(*name.split(), "--help")[1].split())
        assert f"Needs {entry.needs}." in shown
        assert f"Example: {entry.example}" in shown
