"""``hedgerow models``: which models a consortium keeps, and what is known of one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.completion import complete_model
from hedgerow.cli.printing import (
    HERE,
    NOT_ALL,
    FolderArgument,
    Format,
    FormatOption,
    numbers_of,
    print_line,
    print_refusals,
    print_table,
)

if TYPE_CHECKING:
    from hedgerow.parties.roles.server_reports import ModelClient, Shown

app = typer.Typer(
    help="Look at the models that servers, sites, peers or a coordinator keep.",
    no_args_is_help=True,
)


@app.command("list")
def list_(folder: FolderArgument = HERE, format: FormatOption = Format.text) -> None:
    """List the models that you may know, and whether all who keep one have the same."""
    shelves, refusals = _client(folder).list()
    well = not refusals and all(shelf.is_well for shelf in shelves)
    if format is Format.json:
        rows = [shelf.line.model_dump() | {"servers": shelf.servers} for shelf in shelves]
        print(json.dumps({"ok": well, "refused": numbers_of(refusals), "rows": rows}))
    else:
        table = Table("model", "protocol", "population", "analysts", "run", "kept by")
        for shelf in shelves:
            line = shelf.line
            names = [", ".join(part) or "-" for part in (line.populations, line.analysts)]
            table.add_row(line.model, line.protocol, *names, line.run, _servers(shelf.servers))
        print_table(table)
        print_refusals(refusals)
    raise typer.Exit(0 if well else NOT_ALL)


@app.command("show")
def show(
    model: Annotated[
        str,
        typer.Argument(help="name of the model, or its beginning", autocompletion=complete_model),
    ],
    folder: FolderArgument = HERE,
    format: FormatOption = Format.text,
) -> None:
    """Show whose data a model rests on, what each audience learns of it, and what it has cost."""
    client = _client(folder)
    shown = client.show(client.find(model))
    if format is Format.json:
        print(json.dumps({"ok": shown.is_well, **shown.to_dict()}))
    else:
        _print(shown)
        print_refusals(shown.refusals)
    raise typer.Exit(0 if shown.is_well else NOT_ALL)


@app.command("fetch")
def fetch(
    model: Annotated[
        str,
        typer.Argument(
            help="name of a model that is published, or that its peers see, or its beginning",
            autocompletion=complete_model,
        ),
    ],
    folder: FolderArgument = HERE,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="write it here, in place of printing it")
    ] = None,
) -> None:
    """Fetch what is published of a model, with its ledger, as JSON; all who keep it must agree.

    A peer fetches what all peers see of a model, where nothing of it is hidden.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.queries.asking import Reader

    found = _client(folder).find(model)
    text = json.dumps(Reader(PartyConfig.load(folder)).fetch(found), indent=1)
    if out is None:
        print(text)
        return
    out.write_text(text + "\n", encoding="utf-8")
    print_line(f"wrote {out}")


def _client(folder: Path) -> ModelClient:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.server_reports import ModelClient

    return ModelClient(PartyConfig.load(folder))


def _print(shown: Shown) -> None:
    from hedgerow.protocols.registry import askers

    report = shown.report
    print_line(f"{report.model}: protocol {report.protocol}, of run {report.run}")
    print_line(f"  job: {report.job}")
    print_line(f"  data of: {', '.join(report.populations) or '-'}")
    print_line(f"  {askers(report.protocol, report.analysts)}")
    if shown.cost is not None:
        cost = shown.cost
        print_line(
            f"  training: {cost.rounds:,} rounds, {cost.payload / 1e6:,.2f} MB sent by "
            f"{', '.join(shown.sent)} "
            f"({cost.wire / 1e6:,.2f} MB on the wire"
            + (f", {cost.offline / 1e6:,.2f} MB offline)" if cost.offline else ")")
            + ("" if cost.seconds is None else f", {cost.seconds:,.1f} s")
        )
    print_line("\nwhat is learned of a person, at most")
    table = Table("audience", "epsilon", "delta", "relation", "by", "why")
    for one in report.learned:
        figures = f"{one.epsilon:.6g}", f"{one.delta:.3g}"
        # One text says by which accountant, or why nothing is promised.
        beside = (one.why, "") if math.isfinite(one.epsilon) else ("", one.why)
        table.add_row(escape(one.audience), *figures, escape(one.relation), *map(escape, beside))
    print_table(table)
    if report.asking:
        print_line("\nrows asked and charged")
        table = Table("by", "asked", "left")
        for by in report.asking:
            table.add_row(by.analyst, f"{by.asked:,}", f"{by.left:,}")
        print_table(table)
        if report.rows_left is not None:
            print_line(f"{report.rows_left:,} left for all of them together")
    print_line("\nwhat training opened" if report.opened else "\ntraining opened nothing")
    table = Table("name", "to", "shape", "declared", "opened", "why")
    for value in report.opened:
        texts = [escape(text) for text in (value.name, value.audience, value.shape)]
        counts = f"{value.declared:,}", f"{value.opened:,}"
        table.add_row(*texts, *counts, escape(value.why))
    if report.opened:
        print_table(table)
    for key, said in shown.differences.items():
        print_line(f"\n{', '.join(said)} DIFFER in {key}:")
        for server, value in said.items():
            print_line(f"  {server}: {json.dumps(value)}")


def _servers(states: dict[str, str]) -> str:
    """Say in a word that all is well, and otherwise what is where."""
    if set(states.values()) == {"kept"}:
        return "all"
    return ", ".join(f"{name}: {state}" for name, state in states.items())
