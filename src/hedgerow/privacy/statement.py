"""How ledgers and leakage records are written: rows, plain-text tables, checked JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.privacy.accounting import Guarantee
from hedgerow.privacy.release import Release

Row = dict[str, Any]
_NONE: Mapping[int, set[str]] = {}
_SHOWN = ("kind", "reason", "audience", "mechanism", "epsilon", "rho", "sample_rate", "delta")


def row(release: Release) -> Row:
    """Return the fields of a release, its scope as text."""
    values = {field.name: getattr(release, field.name) for field in fields(release)}
    return {**values, "scope": str(release.scope)}


def summary_row(audience: str, total: Guarantee, claimed: float | None) -> Row:
    """Return what a reader wants to know about one audience."""
    return {
        "audience": audience,
        "epsilon": total.epsilon,
        "delta": total.delta,
        "relation": total.relation.value,
        "claimed": claimed,
        "private": "yes" if total.private else "no",
        "why": total.why,
    }


WHICH = (
    "Quote the epsilon of add/remove; that of replace compares with figures about a changed record."
)
"""Which of the two relations to quote, where both are told."""


def text(summary: Sequence[Row], table: Sequence[Row], note: str = "") -> str:
    """Return summary, note and entries; equal entries in many scopes are one line."""
    alike: Counter[tuple[Any, ...]] = Counter()
    for line in table:
        # Most releases are made from all records: a column of ones says nothing.
        line = {**line, "sample_rate": line["sample_rate"] if line["sample_rate"] < 1 else None}
        if line["rho"] is not None:
            # Its cost is the rho. An infinite epsilon would read as a release without a promise.
            line["epsilon"] = None
        alike[tuple(line[key] for key in _SHOWN)] += line["times"]
    lines = [{**dict(zip(_SHOWN, key, strict=True)), "times": n} for key, n in alike.items()]
    both = len({line["relation"] for line in summary if line["private"] == "yes"}) > 1
    parts = [columns([by_or_why(r) for r in summary]), note if both else "", columns(lines)]
    return "\n\n".join(filter(None, parts))


def by_or_why(line: Row) -> Row:
    """Return a row of a summary with the accountant of a guarantee that holds under ``by``.

    A row has one text beside its figures: which accountant found them, or why they promise
    nothing. Under one heading the first would read as a reason for doubt.
    """
    holds = line["private"] == "yes"
    rest = {key: value for key, value in line.items() if key != "why"}
    return {**rest, "by": line["why"] if holds else "", "why": "" if holds else line["why"]}


def fold_roles(summary: Sequence[Row]) -> list[Row]:
    """Put rows of a summary that say the same of every two members of a role into one.

    Such a row has the audience ``any two of server 0, server 1, server 2``. Where it is the same
    under both neighbour relations, too, it has both as its relation.

    A coalition in a `summary_row` is written with `` + ``. The order is kept.
    """
    alike: dict[tuple[Any, ...], list[str]] = {}
    for line in summary:
        alike.setdefault(_rest(line), []).append(line["audience"])
    found: list[Row] = []
    for line in summary:
        members = _every_pair(alike[_rest(line)])
        shown = line
        if members and " + " in line["audience"]:
            shown = {**line, "audience": f"any two of {', '.join(members)}"}
        if shown not in found:
            found.append(shown)
    return _over_relations(found)


def _rest(line: Row) -> tuple[Any, ...]:
    return tuple(value for key, value in line.items() if key != "audience")


def _every_pair(audiences: Sequence[str]) -> list[str]:
    """Return three or more members if the pairs among the audiences are all pairs of them."""
    pairs = {frozenset(a.split(" + ")) for a in audiences if a.count(" + ") == 1}
    members = sorted(set().union(*pairs))
    every = {frozenset(pair) for pair in combinations(members, 2)}
    return members if len(members) > 2 and pairs == every else []


def _over_relations(rows: Sequence[Row]) -> list[Row]:
    """Join the rows for any two members that differ in their relation alone."""
    joined: dict[tuple[Any, ...], Row] = {}
    for line in rows:
        pairs = line["audience"].startswith("any two of ")
        key = tuple(value for name, value in line.items() if name != "relation" or not pairs)
        if key in joined:
            both = f"{joined[key]['relation']}, {line['relation']}"
            joined[key] = {**line, "relation": both}
        else:
            joined[key] = line
    return list(joined.values())


def columns(rows: Sequence[Row]) -> str:
    """Return rows of equal keys as aligned plain text; columns without content are left out.

    Without square brackets of its own, so that rich prints it as it is.
    """
    if not rows:
        return ""
    cells = {key: [key, *(_cell(line[key]) for line in rows)] for key in rows[0]}
    kept = [column for column in cells.values() if any(column[1:])]
    widths = [max(map(len, column)) for column in kept]
    lines = zip(*kept, strict=True)
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_object(
    text: str, schema: str, version: int, keys: set[str], older: Mapping[int, set[str]] = _NONE
) -> Mapping[str, Any]:
    """Parse a JSON object of these keys, this schema and version, or an `older` one; else H211."""
    data = jsonfile.loads(text, Code.BAD_LEDGER_FILE)
    if data.get("schema") != schema:
        raise Code.BAD_LEDGER_FILE.error(expected=f"an object of schema {schema}", found="another")
    found = data.get("version")
    if type(found) is int and found in older:
        keys = older[found]
    elif type(found) is not int or found != version:
        raise Code.BAD_LEDGER_FILE.error(
            expected=f"version {version}", found=f"version {jsonfile.shown(found)}"
        )
    if set(data) != keys:
        raise Code.BAD_LEDGER_FILE.error(
            expected=f"the keys {sorted(keys)}", found=jsonfile.shown(sorted(data))
        )
    return data


def read_count(value: object, least: int) -> int:
    """Return a whole number of a file, at least `least`; else H211."""
    if type(value) is not int or value < least:
        raise Code.BAD_LEDGER_FILE.error(
            expected=f"a whole number >= {least}", found=jsonfile.shown(value)
        )
    return value
