"""``hedgerow fit``: a private model of one table."""

from __future__ import annotations

import json
import math
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from hedgerow.cli.printing import (
    INTERRUPTED,
    DelimiterOption,
    EncodingOption,
    Format,
    FormatOption,
    print_forecast,
    print_line,
    progress_bar,
)
from hedgerow.cli.sources import SqlOption, SqlTimeoutOption, TableArgument, source_of

if TYPE_CHECKING:
    from hedgerow.estimators.fitting import ChargeProgress, Files, Model
    from hedgerow.protocols.choice import ModelChoice
    from hedgerow.protocols.forecast import NoiseForecast


class ModelName(StrEnum):
    """Private models of one table."""

    # The estimators know them, too; but to load these takes seconds.
    auto = "auto"
    tree = "tree"
    topdown = "topdown"
    median_forest = "median-forest"
    boosting = "boosting"


class BadRows(StrEnum):
    """What is done with rows that do not fit the domain or its capacity."""

    absorb = "absorb"
    error = "error"


def fit(
    table: TableArgument,
    *,
    domain: Annotated[Path, typer.Option(help="public domain of the table (TOML)")],
    epsilon: Annotated[float, typer.Option(help="budget of this fit")],
    out: Annotated[Path, typer.Option(help="folder, or file of the model ending in .json")],
    model: Annotated[
        ModelName, typer.Option(help="what to train; auto chooses by public numbers")
    ] = ModelName.auto,
    delta: Annotated[
        float | None, typer.Option(help="at which epsilon holds (boosting, auto)")
    ] = None,
    trees: Annotated[int | None, typer.Option(help="trees, or rounds of boosting")] = None,
    depth: Annotated[
        int | None, typer.Option(help="levels of splits (tree, topdown, forest)")
    ] = None,
    leaves: Annotated[int | None, typer.Option(help="leaves of a round (boosting)")] = None,
    account: Annotated[
        Path | None, typer.Option(help="file of an account that pays; see `hedgerow account`")
    ] = None,
    bad_rows: Annotated[
        BadRows,
        typer.Option(help="absorb by public rules, or refuse: an error tells about the rows"),
    ] = BadRows.absorb,
    seed: Annotated[
        int | None, typer.Option(help="repeatable noise: the model is NOT private")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace files of the same name")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
    format: FormatOption = Format.text,
) -> None:
    """Train a private model on one table; writes the model, its ledger and its privacy curve."""
    import warnings

    from hedgerow.errors import HedgerowWarning
    from hedgerow.estimators.fitting import (
        ChargeProgress,
        Files,
        account_summary,
        choice_of,
        fit_table,
        forecast_of,
        private_model,
    )
    from hedgerow.tables import Domain, TextFormat

    quiet = quiet or format is Format.json
    rows = source_of(table, sql, sql_timeout)
    public, in_memory = (
        Domain.from_toml(domain),
        not (isinstance(rows, Path) and os.path.isdir(rows)),
    )
    estimator = private_model(
        model.value,
        public,
        epsilon=epsilon,
        seed=seed,
        in_memory=in_memory,
        account=account,
        bad_rows=bad_rows.value,
        delta=delta,
        trees=trees,
        depth=depth,
        leaves=leaves,
    )
    if hasattr(estimator, "verbose"):
        estimator.verbose = int(not quiet)
    files = Files.at(out)
    files.prepare(force=force)
    foreseen = forecast_of(estimator)
    if not quiet:
        print_forecast(foreseen)
    charge = ChargeProgress()
    try:
        # The forest has a bar of its own, and what the seed means is said below.
        with (
            progress_bar(quiet or hasattr(estimator, "verbose")) as tell,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", HedgerowWarning)
            text = TextFormat(delimiter, encoding)
            fit_table(estimator, rows, files, tell=tell, charge=charge, text=text)
    except KeyboardInterrupt:
        _print_interrupt(charge, files, account, format)
        raise typer.Exit(INTERRUPTED) from None
    chosen = choice_of(model.value, public, epsilon, in_memory=in_memory)
    _print(estimator, files, chosen, account_summary(estimator), foreseen, format)


def _print(
    model: Model,
    files: Files,
    chosen: ModelChoice,
    account: dict[str, Any] | None,
    foreseen: NoiseForecast,
    format: Format,
) -> None:
    # Neither the number of rows nor an accuracy on them: both would be told without noise.
    ledger = model.privacy_
    drawn = files.plot.exists()
    if format is Format.json:
        report = {
            "ok": True,
            "model": str(files.model),
            "trained": str(chosen.model),
            "reason": chosen.reason,
            "ledger": str(files.ledger),
            "plot": str(files.plot) if drawn else None,
            "owner_only": str(files.owner_only) if files.owner_only.exists() else None,
            "private": ledger.total("public").private,
            "summary": ledger.short_summary(),
            "condition": ledger.condition,
            "releases": ledger.table(),
            "account": account,
            "forecast": foreseen.to_dict(),
        }
        print(json.dumps(_plain(report), allow_nan=False))
        return
    print(ledger)
    print(f"\ntrained: {chosen.model} ({chosen.reason})")
    print(f"model: {files.model}\nledger: {files.ledger}")
    curve = files.plot if drawn else "in the report; as a file of its own with the extra plots"
    print(f"privacy curve: {curve}")
    print(f"a page about it: hedgerow report {files.model}")
    if files.owner_only.exists():
        print(f"for the owner's eyes only: {files.owner_only}")
    if account is not None:
        of = account["of"]
        limit = f" of epsilon {of['epsilon']:g}, delta {of['delta']:.3g}" if of else ""
        print(
            f"account: epsilon {account['epsilon']:.6g}, delta {account['delta']:.3g} "
            f"spent{limit}, fits: {account['fits']}"
        )
    if not ledger.total("public").private:
        Console(stderr=True).print("[bold red]This model is NOT private:[/] do not publish it.")


def _print_interrupt(
    charge: ChargeProgress, files: Files, account: Path | None, format: Format
) -> None:
    # Which files are there does not tell: an older ledger may be, and an account is charged before
    # the ledger is written.
    charged, said = charge.stated, "nothing was charged"
    if charge.stated:
        said = f"what was charged stays charged: {files.ledger}"
    elif charge.begun and account is not None:
        charged = True
        said = f"the account was being charged, and what it says stays charged: {account}"
    if format is Format.json:
        report = {
            "ok": False,
            "interrupted": True,
            "charged": charged,
            "ledger": str(files.ledger) if charge.stated else None,
            "account": str(account) if charged and account is not None else None,
        }
        print(json.dumps(report))
    print_line(f"interrupted; {said}", stderr=True)


def _plain(value: Any) -> Any:
    """Make infinities text, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
