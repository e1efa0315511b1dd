"""``hedgerow plan`` and ``hedgerow estimate``: what a job comes to, before anything is spent."""

from __future__ import annotations

import json
import math
from dataclasses import replace
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
    from hedgerow.parties.vertical.peer_job import PivotJob
    from hedgerow.privacy.accounting import Guarantee


_MATCHED = "matching rows shows peers which are common"
_RING = "which rows are common, and sizes on the way: rows are matched in a ring"


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
    from hedgerow.parties.vertical.peer_job import PivotJob
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
    if isinstance(read, PivotJob):
        costs, opened = _words_of_peers(read, costs, opened)
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


def estimate(
    job: Annotated[Path, typer.Argument(help="what would be trained, and with whom (TOML)")],
    latency: Annotated[
        float, typer.Option(min=0, help="milliseconds there and back between two parties")
    ] = 0.5,
    bandwidth: Annotated[
        float, typer.Option(min=0.001, help="megabits per second that a party can send")
    ] = 1000.0,
    cores: Annotated[int, typer.Option(min=1, help="cores that each party has")] = 1,
    rows: Annotated[
        int | None, typer.Option(min=1, help="rows, in place of the capacity of the domain")
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(help='vertical-id3: values of the attributes by site, such as "3,2;4;2,2"'),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Say how long a job would take, in how many rounds, and how many bytes its parties would send.

    Bytes and rounds follow from what the programs declare; seconds from the speed of this machine,
    as if every party had one like it. Nobody is asked, and nothing is charged.
    """
    from hedgerow.parties.runs.jobs import load_job
    from hedgerow.parties.runs.rehearsing import rehearse_job
    from hedgerow.protocols.estimate.seconds import JobEstimate, Link

    read = load_job(job)
    rehearsed = rehearse_job(read, rows, None if values is None else _values(values))
    found = JobEstimate.of(rehearsed, Link(latency, bandwidth), cores=cores)
    if format is Format.json:
        head = {"ok": True, "run": read.run_id, "protocol": read.protocol}
        print(json.dumps(head | found.to_dict()))
        return
    print(f"run {read.run_id}: protocol {read.protocol}, model {read.model_name}\n")
    # Most protocols do nothing before rows are there.
    two = found.offline_rounds > 0
    table = Table("party", *(("sends before", "sends then") if two else ("sends",)), "computes")
    for one in found.parties:
        sizes = (one.offline_bytes, one.online_bytes) if two else (one.sent,)
        cells = (f"{size / 1e6:,.3f} MB" for size in sizes)
        table.add_row(escape(one.party), *cells, f"{one.computing:,.1f} s")
    print_table(table)
    rounds = f"{found.online_rounds:,}"
    if two:
        rounds = f"{found.offline_rounds:,} before rows are needed, {rounds} then"
    print(f"rounds: {rounds}; {found.latencies:,} messages wait for each other")
    print(f"computing: {found.computing:,.1f} s, with the start of a process at every party")
    print(
        f"network: {found.network:,.1f} s, at {latency:g} ms there and back, {bandwidth:g} Mbit/s"
    )
    print(f"in all: about {found.seconds:,.0f} s")
    if found.note:
        print(f"({found.note})")


def _values(text: str) -> list[list[int]]:
    """Read the numbers of values of sites; H501 for what is none."""
    from hedgerow.errors import Code

    try:
        found = [[int(n) for n in site.split(",") if n.strip()] for site in text.split(";")]
    except ValueError:
        found = [[0]]
    if min((n for site in found for n in site), default=1) < 1:
        raise Code.BAD_PARAMETER.error(
            expected='--values as numbers from 1 on, such as "3,2;4;2,2"', found=repr(text)
        )
    return found


def _figures(costs: Mapping[str, Guarantee]) -> dict[str, dict[str, float | str]]:
    return {
        audience: {
            "epsilon": "inf" if math.isinf(cost.epsilon) else cost.epsilon,
            "delta": cost.delta,
        }
        for audience, cost in costs.items()
    }


def _words_of_peers(
    job: PivotJob, costs: Mapping[str, Guarantee], opened: list[tuple[str, str]]
) -> tuple[dict[str, Guarantee], list[tuple[str, str]]]:
    """Return what peers pay for and open, with names for all of a ring, which is made of sites."""
    plan = job.make_plan()
    ring = {one.name for one in plan.ring_openings()}
    names = {"peer": "all peers"} | {f"peer {i}": name for i, name in enumerate(job.peers)}
    exact = [] if plan.is_private else ["the model and its answers are exact"]
    short = {}
    for audience, cost in costs.items():
        matched = [_MATCHED] if ring and audience != "public" else []
        why = "; ".join([*matched, *exact]) if math.isinf(cost.epsilon) else ""
        short[names.get(audience, audience)] = replace(cost, why=why or cost.why)
    found = [(_RING, "all peers")] if ring else []
    found += [(name, names.get(to, to)) for name, to in opened if name not in ring]
    return short, found


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
