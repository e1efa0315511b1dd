"""Write the reference page of all verbs; `make docs` calls it with the path.

Every verb declares its arguments and options once, where it is written; the page is made of these.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import typer

from hedgerow.cli.main import app

HEAD = """# Verbs

What `hedgerow` does from a shell. This page is made of the program's own help (`make docs`);
`hedgerow VERB --help` prints the same. A verb ends with 0 if all went well, with 1 if there is
something to look at (members differ or do not answer, an attack succeeds), and with 2 if it could
not do it: then it prints a [numbered error](../errors/README.md), with `--format json` as an
object. Interrupted while it waited, it ends with 130.

"""


def verbs() -> dict[str, click.Command]:
    """Return the verbs of the program by their names, `runs show` for one, in its order."""
    return dict(_below("", typer.main.get_command(app)))


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for word in command.list_commands(click.Context(command)):
        yield from _below(f"{name} {word}".strip(), command.commands[word])


def sections() -> Iterator[str]:
    """Yield a list of all verbs, then each of them with what it takes."""
    found = verbs()
    rows = [
        f"| [`{name}`](#{anchor(name)}) | {one.get_short_help_str(200)} |"
        for name, one in found.items()
    ]
    yield "\n".join(["| verb | what it does |", "|---|---|", *rows]) + "\n"
    for name, command in found.items():
        yield section(name, command)


def anchor(name: str) -> str:
    """Return where on the page a verb is."""
    return f"hedgerow {name}".replace(" ", "-")


def section(name: str, command: click.Command) -> str:
    """Return a heading, what the verb does, how it is called, and the table of what it takes."""
    context = click.Context(command, info_name=f"hedgerow {name}")
    usage = " ".join([f"hedgerow {name}", *command.collect_usage_pieces(context)])
    lines = [f"## hedgerow {name}", "", inspect.cleandoc(command.help or ""), ""]
    needs, _, example = (command.epilog or "").partition("\n\nExample: ")
    lines += ["```text", usage, "```", ""]
    lines += [f"{needs} For example:", "", "```console", example, "```", ""] if needs else []
    rows = [row(one, context) for one in command.params if not getattr(one, "hidden", False)]
    if rows:
        lines += ["| takes | values | default | what it is |", "|---|---|---|---|", *rows]
    return "\n".join(lines).rstrip() + "\n"


def row(parameter: click.Parameter, context: click.Context) -> str:
    """Return the line of an argument or an option."""
    if isinstance(parameter, click.Option):
        names = [*parameter.opts, *parameter.secondary_opts]
        values = "" if parameter.is_flag else values_of(parameter, context)
        default = default_of(parameter)
    else:
        names = [parameter.make_metavar(context).strip("[]")]
        values, default = values_of(parameter, context), default_of(parameter)
    text = str(getattr(parameter, "help", None) or "").replace("|", r"\|")
    shown = ", ".join(f"`{name}`" for name in names)
    return f"| {shown} | {values} | {default} | {text} |"


def values_of(parameter: click.Parameter, context: click.Context) -> str:
    """Return what may be given."""
    if isinstance(parameter.type, click.Choice):
        choices = [getattr(one, "value", one) for one in parameter.type.choices]
        return ", ".join(f"`{one}`" for one in choices)
    repeated = getattr(parameter, "multiple", False) or parameter.nargs == -1
    return parameter.type.name + (", may be repeated" if repeated else "")


def default_of(parameter: click.Parameter) -> str:
    """Return what it is where nothing is given."""
    if parameter.required:
        return "has to be given"
    default = parameter.default
    if default is None or default is False or default == () or callable(default):
        return ""
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return f"`{parameter.opts[0]}`" if default else ""
    return f"`{getattr(default, 'value', default)}`"


def page() -> str:
    """Return the page."""
    return HEAD + "\n".join(sections())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
