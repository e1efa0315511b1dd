"""``hedgerow audit``: attacks on everything that claims a guarantee."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from hedgerow.cli.printing import Format, FormatOption
from hedgerow.errors import Code

if TYPE_CHECKING:
    from hedgerow import audit as auditor


def audit(
    names: Annotated[list[str] | None, typer.Argument(help="targets to attack")] = None,
    all_: Annotated[bool, typer.Option("--all", help="attack every registered target")] = False,
    list_: Annotated[bool, typer.Option("--list", help="print the targets and stop")] = False,
    runs: Annotated[int | None, typer.Option(help="runs per neighbouring input, at most")] = None,
    details: Annotated[bool, typer.Option(help="say which attack was the best")] = False,
    seed: Annotated[
        int | None, typer.Option(help="repeatable noise, for tests of the auditor itself")
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Attack mechanisms, estimators and protocols; fail if one leaks more than its ledger says."""
    from hedgerow import audit as auditor
    from hedgerow.privacy import NoiseSource

    if list_:
        rows = [{"target": t.name, "kind": t.kind, "sound": t.sound} for t in auditor.targets()]
        if format is Format.json:
            print(json.dumps({"rows": rows}))
        else:
            table = Table("target", "kind", "sound")
            for row in rows:
                table.add_row(*(str(value) for value in row.values()))
            Console().print(table)
        return
    targets = auditor.targets() if all_ else [auditor.lookup(name) for name in names or []]
    if not targets:
        raise Code.UNKNOWN_TARGET.error(found="no target", fix="name a target or pass --all")
    source = NoiseSource.system() if seed is None else NoiseSource.insecure_seeded(seed)
    results = auditor.audit_all(targets, runs, source, track=_show_progress)
    if format is Format.json:
        print(auditor.to_json(results))
    else:
        Console().print(auditor.table(results, details=details))
    raise typer.Exit(auditor.exit_code(results))


def _show_progress(targets: Sequence[auditor.AuditTarget]) -> Iterator[auditor.AuditTarget]:
    """Go through targets and show which one is under attack."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed}/{task.total} attacking {task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=len(targets))
        for target in targets:
            progress.update(task, description=target.name)
            yield target
            progress.advance(task)
