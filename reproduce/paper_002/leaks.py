"""What sites learn in runs of paper 002's example, read off the wire or from a site's own notes.

The paper's sites are two; where a third is needed it holds the class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from scipy.stats import chisquare

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.messages import (
    Answers,
    Classify,
    GainReply,
    PassSet,
    Sum,
    Token,
)
from hedgerow.protocols.vertical_id3.node import M
from hedgerow.protocols.vertical_id3.site import Interior, Site
from hedgerow.tables import Encoded
from reproduce.paper_002.data import HUMIDITY, PAPER, WEATHER, other_weather, sites_of, weather
from reproduce.paper_002.local_sites import LocalSites
from reproduce.paper_002.methods import COUNTINGS, WIDTH, Counting, GrownSites
from reproduce.paper_002.wire import ManyKeys, Notebook, Wire

THREE = [*PAPER, []]
_BINS = 8


def worked_example(counting: Counting, *, class_everywhere: bool) -> dict[str, Any]:
    """Grow the tree of figure 2 and classify section 3's instance, then all fourteen days."""
    grown = GrownSites(weather(), PAPER, None if class_everywhere else 0, counting)
    splits = {}
    for site, group in zip(grown.sites, PAPER, strict=True):
        for number, node in site.nodes.items():
            if isinstance(node, Interior):
                name = WEATHER.names[group[node.attribute]]
                splits[str(Token(site.index, number))] = [name, *map(str, node.children)]
    # Sunny, hot, normal humidity, weak wind.
    today = np.array([[0, 0, HUMIDITY.index("normal"), 0]], dtype=np.uint8)
    one = _classified(grown, today)
    passed = [str(grown.root)]
    while passed[-1] in splits:
        token = passed[-1]
        column = WEATHER.names.index(splits[token][0])
        passed.append(splits[token][1 + int(today[0, column])])
    table, every = weather(), _classified(grown, weather().bins)
    return {
        "counting": counting,
        "class_everywhere": class_everywhere,
        "splits": splits,
        "path": passed,
        "answer": one["labels"][0],
        "right": int((np.array(every["labels"]) == table.target).sum()),
        "days": table.n_slots,
        "one": one,
        "every": every,
    }


def _classified(grown: GrownSites, bins: np.ndarray) -> dict[str, Any]:
    wire = Wire()
    own = [bins[:, group] for group in PAPER]
    counts = LocalSites(grown.sites, wire).classify(grown.root, np.arange(len(bins)), own, asker=0)
    assert counts is not None
    steps = [m for m in wire.of(Classify) if m.instances]
    return {
        "labels": counts.argmax(axis=1).tolist(),
        "messages": len(wire.messages),
        "bytes": wire.bytes,
        "passed_on": sum(len(m.instances) for m in steps),
        "answers": len(wire.of(Answers)),
    }


def noted(table: Encoded, counting: Counting) -> tuple[GrownSites, list[Notebook]]:
    """Grow the example's tree with every site writing down the sizes that it is given."""
    books: list[Notebook] = []
    grown = GrownSites(
        table, PAPER, 0, counting, look=lambda sites: books.extend(map(Notebook, sites))
    )
    return grown, books


def other_counts(counting: Counting) -> dict[str, Any]:
    """Compare two tables of one tree and the same leaves: what the sites are told, and what not."""
    (first, mine), (second, theirs) = (
        noted(table, counting) for table in (weather(), other_weather())
    )
    tables = [[table for book in books for table in book.tables] for books in (mine, theirs)]
    pairs = [(a, b) for a, b in zip(*tables, strict=True) if not np.array_equal(a, b)]
    flat = np.concatenate([table.ravel() for table in tables[0]])
    return {
        "counting": counting,
        "same_tree": [s.nodes for s in first.sites] == [s.nodes for s in second.sites],
        "tables": len(tables[0]),
        "tables_that_differ": len(pairs),
        "example": [table.tolist() for table in pairs[-1]] if pairs else None,
        "counts": int(flat.size),
        "counts_of_one": int((flat == 1).sum()),
    }


def sub_intersections(counting: Counting) -> dict[str, Any]:
    """Read, at a class site with no attribute, how a second site's set falls into the classes.

    The class site asks for the class counts of a node that outlook and another attribute lead to.
    The sets of that other attribute's site and its own suffice for counts without outlook, which
    no node of the tree has. Sets whose last hop is to oneself are not on the wire: the third one.
    """
    grown = GrownSites(weather(), THREE, 2, counting)
    arrived: dict[int, dict[int, list[bytes]]] = {}
    for one in grown.wire.of(PassSet, to=2):
        if one.counter == 2 and one.layers == len(one.ring) == 3:
            arrived.setdefault(one.call, {})[one.owner] = list(one.groups)
    read = []
    for sets in arrived.values():
        (theirs,) = map(_elements, sets[1])
        read.append(sorted(len(theirs & _elements(group)) for group in sets[2]))
    table = weather()
    true = {
        f"{WEATHER.names[column]} = {value}": sorted(
            np.bincount(table.target[table.bins[:, column] == at], minlength=2).tolist()
        )
        for column in PAPER[1]
        for at, value in enumerate(WEATHER.attributes[column].categories or ())
    }
    return {
        "counting": counting,
        "passes": len(read),
        "true": true,
        "read": sorted(name for name, counts in true.items() if counts in read),
        "in_the_tree": [list(map(int, row)) for row in grown.tree.value],
    }


def _elements(group: bytes) -> set[bytes]:
    return {group[i : i + WIDTH] for i in range(0, len(group), WIDTH)}


def learned(counting: Counting) -> dict[str, Any]:
    """Return how many values of each sort were learned, by two sites and by three."""
    two = GrownSites(weather(), PAPER, 0, counting)
    return {
        "counting": counting,
        "two": two.learned(),
        "reasons": two.learned("why"),
        "three": GrownSites(weather(), THREE, 2, counting).learned(),
    }


def repeated_elements() -> dict[str, int]:
    """Count encrypted elements that two passes of a run have in common."""
    grown = GrownSites(weather(), THREE, 2, "ring")
    calls: dict[bytes, set[int]] = {}
    for one in grown.wire.of(PassSet):
        for group in one.groups:
            for element in _elements(group):
                calls.setdefault(element, set()).add(one.call)
    passes = len(set().union(*calls.values()))
    return {
        "passes": passes,
        "elements": len(calls),
        "in_two_passes": sum(len(found) > 1 for found in calls.values()),
    }


def instances_seen() -> dict[str, Any]:
    """Compare which days come to which node of the second site with the first site's outlook."""
    grown = GrownSites(weather(), PAPER, 0, "ring")
    table, wire = weather(), Wire()
    own = [table.bins[:, group] for group in PAPER]
    LocalSites(grown.sites, wire).classify(grown.root, table.ids, own, asker=0)
    seen = np.zeros(table.n_slots, dtype=np.int64)
    for one in wire.of(Classify, to=1):
        seen[np.isin(table.ids, [int.from_bytes(i[1:], "little") for i in one.instances])] = (
            one.node
        )
    outlook = table.bins[:, 0]
    alike = {value: set(seen[outlook == value].tolist()) for value in set(outlook.tolist())}
    apart = len(set().union(*alike.values())) == len(alike) == sum(map(len, alike.values()))
    return {"days": table.n_slots, "at_its_nodes": int((seen > 0).sum()), "told_apart": apart}


def shape_of_the_schema() -> dict[str, Any]:
    """Read at the class site, before the first gain comes, what the other site's attributes are."""
    grown = GrownSites(weather(), PAPER, 0, "ring")
    root = takewhile(
        lambda at: not (at[0] == 1 and isinstance(at[2], GainReply)), grown.wire.messages
    )
    values = [
        len(m.groups)
        for sender, to, m in root
        if isinstance(m, PassSet) and (sender, to, m.owner, m.counter, m.layers) == (1, 0, 1, 1, 1)
    ]
    return {"read": sorted(values), "true": sorted(grown.sites[1].table.n_values.tolist())}


def many_keys() -> dict[str, int]:
    """Let the second site encrypt each of its own elements under another key, and read classes."""
    table, wire, cipher = weather(), Wire(), ManyKeys()
    sites = sites_of(table, PAPER, class_at=0)
    sites[1] = Site(1, sites[1].job, sites[1].table, cipher=cipher)
    try:
        LocalSites(sites, wire).grow()
    except HedgerowError as error:
        # It reads the classes before it counts; its own count comes to nothing and ends its run.
        if error.code is not Code.IDS_DO_NOT_ALIGN:
            raise
    passes = [one for one in wire.of(PassSet, to=1) if one.counter == 1]
    call = min(one.call for one in passes)
    own, theirs = (
        next(one for one in passes if (one.call, one.owner) == (call, owner)) for owner in (1, 0)
    )
    read = np.full(table.n_slots, -1)
    for label, group in enumerate(theirs.groups):
        read[cipher.recognised(own.groups, group)] = label
    # Classes come in an order that the class site drew.
    right = max(int((read == table.target).sum()), int((read == 1 - table.target).sum()))
    return {"days": table.n_slots, "read": right}


def masked_sums(runs: int) -> dict[str, Any]:
    """Test whether what goes around in algorithm 2 is uniform, over several runs."""
    sums: list[int] = []
    for _ in range(runs):
        sums += [m.total for m in GrownSites(weather(), PAPER, 0, "ring").wire.of(Sum)]
    bins = np.bincount([int(total * _BINS // M) for total in sums], minlength=_BINS)
    return {"sums": len(sums), "p_value": float(chisquare(bins).pvalue)}


def all_leaks(runs: int) -> dict[str, Any]:
    """Run all of these."""
    of_both: Sequence[Counting] = tuple(COUNTINGS)
    return {
        "examples": [
            worked_example(counting, class_everywhere=everywhere)
            for counting in of_both
            for everywhere in (False, True)
        ],
        "other_counts": [other_counts(counting) for counting in of_both],
        "sub_intersections": [sub_intersections(counting) for counting in of_both],
        "learned": [learned(counting) for counting in of_both],
        "repeated_elements": repeated_elements(),
        "instances_seen": instances_seen(),
        "schema": shape_of_the_schema(),
        "many_keys": many_keys(),
        "masked_sums": masked_sums(runs),
    }
