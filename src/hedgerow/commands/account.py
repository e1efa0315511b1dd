"""``hedgerow account``: what all fits on a table, or all jobs of a party, may cost and have."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.commands.formats import Format, FormatOption

if TYPE_CHECKING:
    from hedgerow.parties.balances import Balance

app = typer.Typer(
    help="Keep an account over the fits on one table, with a budget; look at a party's accounts.",
    no_args_is_help=True,
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
    file: Annotated[Path, typer.Argument(help="file of the account, or folder of a party")],
    format: FormatOption = Format.text,
) -> None:
    """Show what each fit, or each job of a party, has cost, and what is left."""
    from hedgerow.estimators.account import Account
    from hedgerow.parties.balances import balance_of, balances_in, population_of

    if file.is_dir():
        _show_balances(balances_in(file), format)
        return
    population = population_of(file)
    if population is not None:
        _show_balances([balance_of(file, population)], format)
        return
    account = Account(file)
    costs, spent, budget = account.costs(), account.spent(), account.ledger.budget
    if format is Format.json:
        epsilon = spent.epsilon if spent.private else None
        report = {
            "ok": True,
            "fits": [{**cost._asdict(), "epsilon": _plain(cost.epsilon)} for cost in costs],
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


def _show_balances(balances: list[Balance], format: Format) -> None:
    """Print accounts of a party."""
    if format is Format.json:
        rows = [
            {
                "population": one.population,
                "charges": [
                    {**vars(charge), "epsilon": _plain(charge.epsilon)}
                    for charge in one.spent.charges
                ],
                "spent": {"epsilon": _plain(one.spent.epsilon), "delta": one.spent.delta},
                "limit": _plain(one.limit),
                "left": _plain(one.left),
            }
            for one in balances
        ]
        print(json.dumps({"ok": True, "accounts": rows}))
        return
    if not balances:
        print("no accounts: policy.toml lists no population, and nothing was charged")
    for one in balances:
        if one.spent.charges:
            table = Table("charged", "for", "epsilon", "delta")
            for charge in one.spent.charges:
                day = datetime.fromtimestamp(charge.time, UTC).strftime("%Y-%m-%d %H:%M")
                what = escape(charge.what or charge.key)
                table.add_row(day, what, f"{charge.epsilon:.6g}", f"{charge.delta:.3g}")
            Console().print(table)
        spent = f"{one.population}: spent epsilon {one.spent.epsilon:.6g}"
        if one.limit is None:
            print(
                f"{spent}, delta {one.spent.delta:.3g}; no policy.toml that lists it is beside it"
            )
        else:
            print(f"{spent} of {one.limit:g}, delta {one.spent.delta:.3g}; left: {one.left:.6g}")


def _plain(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value
