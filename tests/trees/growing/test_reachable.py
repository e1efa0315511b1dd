"""Bins that remain possible, against a walk of every record through the tree."""

import numpy as np
import pytest

from hedgerow.tables import Attribute, Domain, Target, encode
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.reachable import below, undecided_candidates


def everything() -> Domain:
    return Domain(
        attributes=(
            Attribute(name="a", kind="numeric", bounds=(0, 4), bins=4, missing="own bin"),
            Attribute(name="b", kind="categorical", categories=("x", "y", "z")),
            Attribute(name="c", kind="categorical", categories=("only",)),
        ),
        target=Target(name="t", classes=(0, 1)),
    )


@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_a_candidate_is_undecided_if_two_possible_records_part(branching: str) -> None:
    domain = everything()
    # One row of every kind: what is possible is what occurs.
    rows = [(a, b, "only") for a in (0.5, 1.5, 2.5, 3.5, None) for b in "xyz"]
    encoded = encode(rows, domain, [0] * len(rows))
    candidates = Candidates.from_domain(domain, branching)
    table = Rows(encoded, candidates)
    rng = np.random.default_rng(0)
    nodes = np.zeros(1, dtype=np.int64)
    possible = np.ones((1, candidates.total_bins), dtype=np.bool_)
    for _ in range(4):
        hist = table.histogram(nodes).sum(axis=-1)
        np.testing.assert_array_equal(possible & (hist.sum(axis=1) > 0)[:, None], hist > 0)
        valid = undecided_candidates(possible, candidates)
        for i, node in enumerate(nodes):
            parts = [
                (np.diff(table.tally([node], [c]).first)[0], table.tally([node], [c]).counts)
                for c in range(len(candidates))
            ]
            parted = np.array([(counts.sum(axis=1) > 0).sum() > 1 for _, counts in parts])
            expected = parted if parted.any() else np.ones_like(parted)
            np.testing.assert_array_equal(valid[i], expected)
        choices = np.array([rng.choice(np.flatnonzero(v)) for v in valid])
        split = table.tally(nodes, choices)
        first = table.move(split)
        possible = below(possible, split, candidates)
        nodes = first[0] + np.arange(int(split.first[-1]))
