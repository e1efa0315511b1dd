"""What leakage records and meters say, as tables of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from hedgerow.net.meter import Reading, Traffic
from hedgerow.privacy import Leakage
from hedgerow.protocols.pivot.programs import OFFLINE
from hedgerow.reports.facts import OpenedValue, Openings, RunCost, StageCost

_MOST_STEPS = 24
"""Rows of a table; what costs less is summed up in its last row."""


def openings_of(title: str, rows: Iterable[Mapping[str, Any]]) -> Openings:
    """Return rows of `Leakage.what_was_learned` under a title."""
    keys = OpenedValue._fields
    return Openings(title, tuple(OpenedValue(**{key: row[key] for key in keys}) for row in rows))


def learned_by(
    records: Sequence[Leakage], names: Mapping[str, str], *, published: bool = False
) -> tuple[Openings, ...]:
    """Return what each audience has seen by these records; those who saw the same share a table.

    `names` say who is behind an audience. What is `published` was opened to who shows it to all:
    the rest of them has seen what a release pays for.
    """
    alike: dict[tuple[OpenedValue, ...], list[str]] = {}
    for audience, name in names.items():
        rows = [row for record in records for row in record.what_was_learned(audience)]
        alike.setdefault(openings_of("", rows).rows, []).append(name)
    found = [
        Openings(f"What {_listed(those)} learned", rows) for rows, those in alike.items() if rows
    ]
    if published:
        paid = {o.name for record in records for o in record.openings if o.release is not None}
        shown = (one for part in found for one in part.rows if one.name in paid)
        found.append(Openings("What everybody learned", tuple(dict.fromkeys(shown))))
    nothing = [name for rows, those in alike.items() if not rows for name in those]
    if nothing:
        found.append(Openings(f"What {_listed(nothing)} learned", ()))
    return tuple(found)


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}, each,"


def cost_of(title: str, reading: Reading) -> RunCost:
    """Return a reading step by step, the dearest ones, in the order in which they were taken."""
    steps = {step: _at(reading, step) for step in reading.steps}
    return _dearest(title, {step: sent for step, sent in steps.items() if sent != Traffic()})


def cost_by(
    by: Literal["stage", "attempt"], title: str, rows: Sequence[Mapping[str, Any]]
) -> RunCost:
    """Return the sums that a meter keeps of every stage or attempt, by their names."""
    sums = {str(row[by]): Traffic(**{k: row[k] for k in row if k != by}) for row in rows}
    if by == "attempt":
        sums = {f"attempt {number}": sent for number, sent in sums.items()}
    return _dearest(title, {name or "beside the stages": sums[name] for name in sums}, by)


def _dearest(
    title: str, sums: Mapping[str, Traffic], by: Literal["step", "stage", "attempt"] = "step"
) -> RunCost:
    dear = set(sorted(sums, key=lambda name: -sums[name].payload)[:_MOST_STEPS])
    each, rest = [(name, sent) for name, sent in sums.items() if name in dear], Traffic()
    for name, sent in sums.items():
        rest = rest if name in dear else rest.plus(sent)
    if len(sums) > len(dear):
        each.append((f"{len(sums) - len(dear):,} more", rest))
    stages = tuple(StageCost(name, *sent) for name, sent in each)
    if not any(sent.seconds for sent in sums.values()):
        # A meter of an earlier version has noted none.
        stages = tuple(one._replace(seconds=None) for one in stages)
    return RunCost(title, stages, by)


def offline_and_online(title: str, reading: Reading) -> tuple[RunCost, ...]:
    """Return what could be sent before rows are there or the target is, and what could not."""
    offline = reading.only(*OFFLINE)
    if not sum(offline.payload):
        return (cost_of(title, reading),)
    ahead = f"{title}: offline, which needs no target and may be done ahead"
    return cost_of(ahead, offline), cost_of(f"{title}: online", reading.without(*OFFLINE))


def _at(reading: Reading, step: str) -> Traffic:
    each = [reading.at(step, party) for party in reading.parties]
    return Traffic(
        max((one.rounds for one in each), default=0),
        sum(one.payload for one in each),
        sum(one.wire for one in each),
        max((one.waiting for one in each), default=0.0),
        max((one.seconds for one in each), default=0.0),
    )
