"""What a shell completes beside verbs and options: from files of the folder alone, at once."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import typer

from hedgerow.errors import Code


def complete_error(incomplete: str) -> list[tuple[str, str]]:
    """Return numbers of errors that begin so, with their titles."""
    start = f"H{incomplete.upper().removeprefix('H')}"
    return [(one.number, one.spec.title) for one in Code if one.number.startswith(start)]


def complete_paper(incomplete: str) -> list[str]:
    """Return keys of papers that begin so."""
    text = Path(__file__).parents[1].joinpath("references.bib").read_text(encoding="utf-8")
    return [key for key in re.findall(r"^@\w+\{(\w+),", text, re.M) if key.startswith(incomplete)]


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return runs that this party keeps."""
    return _kept(ctx, "SELECT id FROM runs ORDER BY created DESC", incomplete)


def complete_model(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return models that this party keeps a part of; the others are told by their servers alone."""
    return _kept(ctx, "SELECT name FROM models ORDER BY name", incomplete)


def _kept(ctx: typer.Context, query: str, incomplete: str) -> list[str]:
    """Ask the database of a party without opening it as a party does: it is not brought up."""
    # The folder comes behind what is completed: it is this one, unless it was named before.
    base = Path(ctx.params.get("folder") or Path()).absolute() / "state" / "party.db"
    found: list[str] = []
    address = f"{base.as_uri()}?mode=ro"
    with (
        suppress(sqlite3.Error, OSError),
        closing(sqlite3.connect(address, uri=True, timeout=0.2)) as made,
    ):
        found = [str(name) for (name,) in made.execute(query)]
    return [name for name in found if name.startswith(incomplete)]
