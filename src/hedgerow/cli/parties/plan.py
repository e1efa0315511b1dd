"""``hedgerow plan``: what a job comes to, before anything is spent."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import Format, FormatOption, print_forecast, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hedgerow.parties.runs.job_files import Job
    from hedgerow.privacy.accounting import Guarantee


def plan(
    job: Annotated[Path, typer.Argument(help="what would be trained, and with whom (TOML)")],
    folder: Annotated[
        Path | None, typer.Argument(help="folder of a party: ask whether its job would be taken")
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Print what a job would charge, to whom, what it opens, and how large its noise would be.

    Nothing is charged. Without a folder nobody is asked; with one, those who take part are, and a
    job that names an upload, a column or a target that is not there is refused.
    """
    from hedgerow.parties.runs.jobs import load_job
    from hedgerow.protocols.forecast import forecast

    read = load_job(job)
    asked = None if folder is None else _check(read, folder)
    costs, answers, opened = read.costs(), read.answer_costs(), read.opened()
    foreseen = forecast(read.make_plan())
    if format is Format.json:
        report = {
            "ok": True,
            "run": read.run_id,
            "hash": read.hash,
            "protocol": read.protocol,
            "model": read.model_name,
            "population": read.population,
            "costs": _figures(costs),
            "answer_costs": _figures(answers),
            "opens": [{"name": name, "audience": audience} for name, audience in opened],
            "forecast": foreseen.to_dict(),
            "would_take_it": asked,
        }
        print(json.dumps(report))
        return
    _print(read)
    _print_costs(costs)
    if answers:
        print("the first answer charges more, and is refused where nothing exact is allowed:")
        _print_costs(answers)
    print("training opens nothing" if not opened else "training opens:")
    for name, audience in opened:
        print(f"  {name}, to {'everybody' if audience == 'public' else audience}")
    print()
    print_forecast(foreseen, Console())
    if asked is not None:
        print(f"would be taken by: {', '.join(asked) or 'nobody that takes calls'}")


def _figures(costs: Mapping[str, Guarantee]) -> dict[str, dict[str, float | str]]:
    return {
        audience: {
            "epsilon": "inf" if math.isinf(cost.epsilon) else cost.epsilon,
            "delta": cost.delta,
        }
        for audience, cost in costs.items()
    }


def _print_costs(costs: Mapping[str, Guarantee]) -> None:
    table = Table("audience", "epsilon", "delta", "why")
    for audience, cost in costs.items():
        table.add_row(
            escape(audience), f"{cost.epsilon:.6g}", f"{cost.delta:.3g}", escape(cost.why or "")
        )
    print_table(table)


def _check(job: Job, folder: Path) -> list[str]:
    """Return who would take a job, of those who take part and take calls."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.runs.client import RunClient

    return list(RunClient(PartyConfig.load(folder)).check(job))


def _print(job: Job) -> None:
    from hedgerow.protocols.registry import askers

    print(f"run {job.run_id}: protocol {job.protocol}, model {job.model_name}")
    for line in job.describe():
        print(f"  {line}")
    print(f"  {askers(job.protocol, job.analysts)}")
    print(
        f"\n{job.payers} charges this to its own account of {job.population}, before anything "
        "is opened:"
    )
