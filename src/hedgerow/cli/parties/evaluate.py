"""``hedgerow evaluate``: how good a hidden model is on rows that were shared for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.completion import complete_model
from hedgerow.cli.parties.train import QuietOption, follow
from hedgerow.cli.printing import (
    HERE,
    FolderArgument,
    Format,
    FormatOption,
    print_line,
    print_table,
)
from hedgerow.errors import Code
from hedgerow.jsonfile import plain

if TYPE_CHECKING:
    from hedgerow.parties.evaluation.job import EvaluationJob
    from hedgerow.protocols.hidden.evaluation import Evaluation
    from hedgerow.protocols.sharing.integrate import Partition


def evaluate(
    model: Annotated[
        str,
        typer.Argument(help="name of a hidden model of classes", autocompletion=complete_model),
    ],
    folder: FolderArgument = HERE,
    *,
    tables: Annotated[
        list[str], typer.Option("--table", help="held-out upload; may be given several times")
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="budget of a held-out record, for all figures together")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="count without noise, and without a guarantee")
    ] = False,
    ranges: Annotated[int, typer.Option(help="of the score of two classes, for the AUC")] = 16,
    columns: Annotated[
        bool, typer.Option("--columns", help="uploads have columns of the same records, not rows")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="of the job; another name evaluates, and costs, once more")
    ] = None,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Count how well a hidden model answers for held-out rows: accuracy, AUC and confusion.

    The three servers count on shares and add noise, which the population of the rows pays for at
    every server; you alone get the figures. The same question is answered from the same table, and
    is paid for once.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.evaluation.client import Evaluator
    from hedgerow.parties.runs.client import RunClient

    if (epsilon is None) != exact:
        raise Code.BAD_PARAMETER.error(
            expected="--epsilon, or --exact for counts without noise",
            found="both" if exact else "neither",
        )
    config = PartyConfig.load(folder)
    evaluator = Evaluator(config)
    partition: Partition = "vertical" if columns else "horizontal"
    job = evaluator.propose(model, tables, epsilon, ranges=ranges, name=name, partition=partition)
    run = evaluator.post(job)
    if not quiet:
        print_line(f"run {run}", stderr=True)
    follow(RunClient(config), run, folder, quiet=True, format=Format.text)
    found = evaluator.fetch(job)
    if format is Format.json:
        print(json.dumps({"ok": True, **_about(job), **found.to_dict()}))
        return
    _print(job, found)


def _about(job: EvaluationJob) -> dict[str, object]:
    costs = {
        audience: {"epsilon": plain(cost.epsilon), "delta": cost.delta}
        for audience, cost in job.costs().items()
    }
    return {
        "run": job.run_id,
        "model": job.model,
        "tables": list(job.uploads),
        "slots": job.slots,
        "population": job.population,
        "costs": costs,
    }


def _print(job: EvaluationJob, found: Evaluation) -> None:
    print_line(f"{job.model} on {', '.join(job.uploads)} ({job.slots:,} slots)")
    print_line(f"  accuracy: {found.accuracy:.3f}")
    if found.auc is not None:
        print_line(f"  AUC: {found.auc:.3f}")
    table = Table("class", *(escape(f"answered {label}") for label in found.classes))
    for label, row in zip(found.classes, found.confusion, strict=True):
        table.add_row(escape(str(label)), *(f"{cell:,.0f}" for cell in row))
    print_table(table)
    cost = job.costs()["analyst"]
    print_line(
        f"charged to {job.population} at every server, once: epsilon {cost.epsilon:.6g}, "
        f"delta {cost.delta:.3g}"
    )
