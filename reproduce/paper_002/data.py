"""The tables of paper 002: its fourteen days of weather, and random ones of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from reproduce import data

OUTLOOK = ("sunny", "overcast", "rainy")
TEMPERATURE = ("hot", "mild", "cool")
HUMIDITY = ("high", "normal")
WIND = ("weak", "strong")

# Quinlan's fourteen days.
_DAYS = """
sunny hot high weak no
sunny hot high strong no
overcast hot high weak yes
rainy mild high weak yes
rainy cool normal weak yes
rainy cool normal strong no
overcast cool normal strong yes
sunny mild high weak no
sunny cool normal weak yes
rainy mild normal weak yes
sunny mild normal strong yes
overcast mild high strong yes
overcast hot normal weak yes
rainy mild high strong no
"""
DAYS = [line.split() for line in _DAYS.split("\n") if line]

WEATHER = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=values)
        for name, values in (
            ("outlook", OUTLOOK),
            ("temperature", TEMPERATURE),
            ("humidity", HUMIDITY),
            ("wind", WIND),
        )
    ),
    target=Target(name="play", classes=("no", "yes")),
    capacity=20,
)


def weather() -> Encoded:
    """Encode the fourteen days, with the days 1 to 14 as ids."""
    rows = [day[:4] for day in DAYS]
    return encode(rows, WEATHER, [day[4] for day in DAYS], ids=np.arange(1, 15))


# The paper's sites: the first has outlook, temperature and the class, the second the rest.
PAPER = [[0, 1], [2, 3]]


def dealt(n_columns: int, n_sites: int) -> list[list[int]]:
    """Deal columns to sites in order."""
    return [part.tolist() for part in np.array_split(np.arange(n_columns), n_sites)]


def other_weather() -> Encoded:
    """Return days on which overcast weather comes with other winds and temperatures.

    Outlook alone decides those days, so that the tree and its leaves are those of `weather`.
    """
    table = weather()
    bins = table.bins.copy(order="F")
    overcast = np.flatnonzero(bins[:, 0] == OUTLOOK.index("overcast"))
    bins[overcast, 1] = 0
    bins[overcast, 3] = 1
    return Encoded(table.domain, bins, table.target, table.present, table.ids)


def random_table(n: int, r: int, p: int, c: int) -> Encoded:
    """Make n records of r attributes with p values each, and a class of c that has no rule.

    Without a rule nodes are seldom pure, so that a tree has all the nodes of its depth.
    """
    values = tuple(range(p))
    domain = Domain(
        attributes=tuple(
            Attribute(name=f"a{i}", kind="categorical", categories=values) for i in range(r)
        ),
        target=Target(name="y", classes=tuple(range(c))),
    )
    rng = np.random.default_rng(2)
    rows, y = rng.integers(0, p, (n, r)), rng.integers(0, c, n)
    return encode(rows, domain, y, ids=np.arange(n))


def car(every: int = 1) -> Encoded:
    """Read each so-manyth record of car evaluation."""
    whole = _encoded(data.car())
    return whole.rows(np.arange(0, whole.n_slots, every))


def mushroom() -> Encoded:
    """Read mushroom."""
    return _encoded(data.mushroom())


def _encoded(whole: data.DataSet) -> Encoded:
    return encode(whole.frame, whole.domain, whole.target, ids=np.arange(len(whole.target)))


def tables_of(
    table: Encoded, groups: Sequence[Sequence[int]], class_at: int | None
) -> list[SiteTable]:
    """Deal the columns of a table to sites; the class is at one of them, or at all (None)."""
    assert table.ids is not None
    return [
        SiteTable(
            table.bins[:, list(group)],
            table.domain.n_bins[list(group)].astype(np.int64),
            table.target if class_at in (None, i) else None,
            table.ids,
        )
        for i, group in enumerate(groups)
    ]


def sites_of(
    table: Encoded, groups: Sequence[Sequence[int]], class_at: int | None = 0, **job: Any
) -> list[Site]:
    """Make the sites of a table whose columns are dealt."""
    options = {key: job.pop(key) for key in ("cipher", "entropy", "source") if key in job}
    public = SiteJob(len(groups), class_at, n_classes_of(table), **job)
    return [
        Site(i, public, own, **options) for i, own in enumerate(tables_of(table, groups, class_at))
    ]


def n_classes_of(table: Encoded) -> int:
    """Return the number of classes."""
    assert table.domain.target is not None
    assert table.domain.target.n_classes is not None
    return table.domain.target.n_classes
