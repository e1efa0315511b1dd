"""The verb: looks at everything, prints what was found, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import NOT_ALL, Format, FormatOption, print_line, print_table

_MARKS = {"well": "[green]✓[/]", "note": "[yellow]![/]", "ill": "[red]✗[/]"}


def doctor(
    folder: Annotated[
        Path | None, typer.Argument(help="folder of a party: looks at it as well")
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Look at this machine and installation, and at a party's folder; say what to do.

    It ends with 1 if something will not work. Where a party is given, it asks the other members
    that take calls, as `hedgerow consortium check` does.
    """
    from hedgerow.cli.doctor.machine import machine_symptoms
    from hedgerow.cli.doctor.party import party_symptoms

    found = [*machine_symptoms(), *(party_symptoms(folder) if folder is not None else ())]
    bad = [one for one in found if one.gravity == "ill"]
    if format is Format.json:
        print(json.dumps({"ok": not bad, "rows": [one.to_dict() for one in found]}))
        raise typer.Exit(NOT_ALL if bad else 0)
    table = Table("", "what", "found")
    for one in found:
        table.add_row(_MARKS[one.gravity], escape(one.what), escape(one.found))
    print_table(table)
    for one in found:
        if one.fix:
            print_line(f"{one.what}: {one.fix}")
    print_line(
        f"will not work: {', '.join(one.what for one in bad)}"
        if bad
        else "All that is needed works."
    )
    raise typer.Exit(NOT_ALL if bad else 0)
