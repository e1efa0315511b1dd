"""Edges at which a tree among peers could go wrong without anybody noticing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow import PivotTreeRegressor
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.protocols.checkpoint import NoCheckpoints
from hedgerow.protocols.pivot.growth import _opened_choice
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.tables import Attribute, Domain, Target
from tests.protocols.pivot.peer_tables import encoded, grown, plan_for
from tests.protocols.pivot.test_growth import OnDisk


def test_candidates_beyond_the_ring_of_counts() -> None:
    """More splits than a ring of 16 bits has numbers."""
    wide = [Attribute(name=f"x{j}", kind="numeric", bounds=(0, 1), bins=256) for j in range(260)]
    domain = Domain(attributes=tuple(wide), target=Target(name="y", classes=("n", "p")))
    owners = [j % 2 for j in range(260)]
    plan = PivotOptions(max_depth=1).plan(domain, 600, owners=owners, n_peers=2)
    assert plan.ring.bits == 16
    opening = Opening("splits of level 0", "peer", (1,), independent="a test")
    engine = AdditiveEngine(Simulator(2), Leakage([opening]))
    hot = np.zeros((1, len(plan.layout.candidates)), dtype=np.int64)
    hot[0, 66_000] = 1
    choice = engine.input(hot, 0, hot.shape, plan.ring)
    np.testing.assert_array_equal(_opened_choice(choice, plan, 0, NoCheckpoints()), [66_000])


@pytest.mark.parametrize("decrease", [0.0, 1e-18, 1e-14])
def test_pure_nodes_of_numbers_are_leaves(decrease: float) -> None:
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 3)
    y = 1.0 + 2.0 * X[:, 0]
    model = PivotTreeRegressor(n_peers=2, max_depth=2, min_impurity_decrease=decrease).fit(X, y)
    assert model.tree_.n_nodes == 3


@pytest.mark.parametrize("decrease", [1e308, 1e-300])
def test_any_decrease_is_a_number(decrease: float) -> None:
    plan = plan_for(encoded("diabetes"), 2, min_impurity_decrease=decrease)
    assert 0 <= plan.decrease <= plan.score.bound


def test_what_follows_from_columns_is_marked() -> None:
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    model = PivotTreeRegressor(n_peers=2, max_depth=1).fit(X, y)
    assert any("domain" in reason for reason in map(str, model.privacy_.not_private))


def test_shares_of_two_attempts_are_refused() -> None:
    rows = encoded("iris", columns=2)
    plan = plan_for(rows, 2, max_depth=1)
    kept: list[dict[str, Any]] = [{}, {}]
    for stages in kept:
        grown(rows, plan, stages=OnDisk(stages, 1000))
    mixed = {
        name: {key: np.stack([one[0], kept[1][name][key][1]]) for key, one in arrays.items()}
        for name, arrays in kept[0].items()
    }
    with pytest.raises(HedgerowError) as caught:
        grown(rows, plan, stages=OnDisk(mixed, 1000))
    assert caught.value.code is Code.SHARES_DIFFER


def test_set_ups_hash_under_keys_of_their_own() -> None:
    keys = set()
    for _ in range(2):
        engine: Any = AdditiveEngine(Simulator(2), Leakage([]), session="the same")
        engine.provider.begin()
        keys |= {sender._context._name for sender in engine.provider._senders.values()}
    assert len(keys) == 4


def test_a_plan_of_another_depth_is_another_plan() -> None:
    plan = plan_for(encoded("iris"), 2)
    assert replace(plan, depth=2).openings() != plan.openings()
