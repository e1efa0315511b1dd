"""``hedgerow account``: what all fits on one table may cost together, and have cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hedgerow.commands.formats import Format, FormatOption

app = typer.Typer(
    help="Keep an account over the fits on one table, with a budget.", no_args_is_help=True
)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="file to make (JSON)")],
    *,
    epsilon: Annotated[float, typer.Option(help="what all fits together may cost")],
    delta: Annotated[
        float | None, typer.Option(help="at which it holds; boosting needs one")
    ] = None,
    fit_delta: Annotated[
        float | None,
        typer.Option(help="what each fit of boosting takes of delta; by default a hundredth"),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Make an account; every fit with --account FILE is charged to it, or refused."""
    from hedgerow.estimators.account import Account

    Account.new(file, epsilon, delta, fit_delta)
    if format is Format.json:
        print(json.dumps({"ok": True, "file": str(file)}))
    else:
        print(f"{file}: epsilon {epsilon:g} for all fits on the same people.")


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="file of the account")],
    format: FormatOption = Format.text,
) -> None:
    """Show what each fit has cost, and what is left."""
    from hedgerow.estimators.account import Account

    account = Account(file)
    costs, spent, budget = account.costs(), account.spent(), account.ledger.budget
    if format is Format.json:
        epsilon = spent.epsilon if spent.private else None
        report = {
            "ok": True,
            "fits": [cost._asdict() for cost in costs],
            "spent": {"epsilon": epsilon, "delta": spent.delta, "why": spent.why},
            "budget": budget and {"epsilon": budget.epsilon, "delta": budget.delta},
        }
        print(json.dumps(report))
        return
    table = Table("fit", "epsilon", "delta")
    for cost in costs:
        table.add_row(cost.fit, f"{cost.epsilon:.6g}", f"{cost.delta:.3g}")
    Console().print(table)
    limit = f" of epsilon {budget.epsilon:g}, delta {budget.delta:.3g}" if budget else ""
    why = f" ({spent.why})" if spent.why else ""
    print(f"spent: epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}{limit}{why}")
