"""Claimed, proven and attacked epsilon side by side: for programs, for people, for the shell."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from hedgerow.audit.engine import Result

Row = dict[str, str | float | int | bool]

_FAILURES = ("refuted", "missed")


def verdict(result: Result) -> str:
    """Judge one result.

    ``"refuted"``: the attack proves more than the ledger says. ``"not refuted"``: it does not.
    ``"out of reach"``: it could not have, with so few runs. ``"caught"`` and ``"missed"``: for a
    target whose claim is known to be false.
    """
    if result.refuted:
        return "refuted"
    if not result.sound:
        return "caught" if result.caught else "missed"
    return "not refuted" if result.ceiling > result.proven else "out of reach"


def exit_code(results: Sequence[Result]) -> int:
    """Give 1 if a proven figure was refuted or something broken was missed, 0 otherwise."""
    return int(any(verdict(result) in _FAILURES for result in results))


def rows(results: Sequence[Result]) -> list[Row]:
    """One JSON-ready row per result; an infinite figure is the string ``"inf"``."""
    return [
        {
            "target": result.target,
            "sound": result.sound,
            "claimed": _number(result.claimed),
            "proven": _number(result.proven),
            "attacked": _number(result.attacked),
            "runs": result.runs,
            "kind": result.kind,
            "relation": result.relation.value,
            "delta": result.delta,
            "ceiling": result.ceiling,
            "false_alarm": result.false_alarm,
            "pair": result.pair,
            "event": result.event,
            "estimate": _number(result.estimate),
            "direction": result.direction,
            "verdict": verdict(result),
            "seconds": round(result.seconds, 3),
        }
        for result in results
    ]


def to_json(results: Sequence[Result]) -> str:
    """Render ``{"rows": [...]}``, valid JSON without NaN or Infinity."""
    return json.dumps({"rows": rows(results)}, indent=2, allow_nan=False)


def table(results: Sequence[Result], *, details: bool = False) -> Table:
    """Render for `rich.console.Console`; with `details`, say which attack was the best."""
    total = min(1.0, sum(result.false_alarm for result in results))
    view = Table(
        title="Audit: epsilon claimed, proven, and reached by attack",
        caption=f"Probability of a false alarm anywhere in this table: at most {total:.2g}. "
        "An estimate has no confidence: it shows how near an attack comes, and refutes nothing.",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    view.add_column("target, and the attack" if details else "target", overflow="fold")
    for heading in ("claimed", "proven", "attacked", "estimate", "ceiling", "runs"):
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("verdict", no_wrap=True)
    for result in results:
        judged = verdict(result)
        attack = f"\n  [dim]{escape(f'{result.pair}: {result.event}')}[/dim]" if details else ""
        view.add_row(
            escape(result.target) + attack,
            _text(result.claimed),
            _text(result.proven),
            _text(result.attacked),
            f"[dim]{_text(result.estimate)}[/dim]",
            _text(result.ceiling),
            f"{result.runs:,}",
            f"[{'red' if judged in _FAILURES else 'green'}]{judged}",
        )
    return view


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def _text(value: float) -> str:
    return "inf" if math.isinf(value) else f"{value:.3g}"
