"""``hedgerow errors`` and ``hedgerow version``: the numbered errors, and which Hedgerow this is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow import __version__
from hedgerow.cli.completion import complete_error
from hedgerow.cli.printing import Format, FormatOption
from hedgerow.errors import Code, write_pages


def version(format: FormatOption = Format.text) -> None:
    """Print the version."""
    print(json.dumps({"version": __version__}) if format is Format.json else __version__)


def errors(
    number: Annotated[
        str | None, typer.Argument(help="such as H201", autocompletion=complete_error)
    ] = None,
    write: Annotated[Path | None, typer.Option(help="write one page per number here")] = None,
    format: FormatOption = Format.text,
) -> None:
    """List the numbered errors, explain one, or write their pages."""
    if write is not None:
        write_pages(write)
        return
    wanted = None if number is None else f"H{number.upper().removeprefix('H')}"
    codes = [code for code in Code if wanted in (None, code.number)]
    if not codes:
        raise Code.UNKNOWN_ERROR_NUMBER.error(found=str(number))
    if format is Format.json:
        rows = [
            {
                "number": code.number,
                "name": code.name,
                "title": code.spec.title,
                "expected": code.spec.expected,
                "fix": code.spec.fix,
                "why": code.spec.why,
            }
            for code in codes
        ]
        print(json.dumps({"rows": rows}))
    elif number is None:
        table = Table("number", "title", "what to do")
        for code in codes:
            table.add_row(code.number, escape(code.spec.title), escape(code.spec.fix))
        Console().print(table)
    else:
        from rich.markdown import Markdown

        Console().print(Markdown(codes[0].page()))
