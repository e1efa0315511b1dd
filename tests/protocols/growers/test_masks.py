from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads
from hedgerow.secure.ring import Z16, Z32
from hedgerow.secure.secret import Engine
from hedgerow.tables import Encoded
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    child_of,
    domain,
    look,
    make_engine,
    make_slots,
    shared,
)
from tests.protocols.sharing.shared_tables import one_hot, shared_table

BRANCHINGS = ("binary", "wary")
N = 90


@dataclass
class Plain:
    """The rows of t trees in the clear: bins (t, n, m), columns (t, n, k), node (t, n)."""

    layout: Layout
    bins: NDArray[Any]
    columns: NDArray[np.int64]
    node: NDArray[np.int64]
    nodes: int = 1

    @classmethod
    def disjoint(cls, layout: Layout, slots: Encoded, t: int) -> "Plain":
        # Slot i belongs to tree i modulo t.
        rows = slots.n_slots // t
        bins = np.stack([slots.bins[tree::t] for tree in range(t)])
        columns = np.stack([classes_of(slots)[tree::t] for tree in range(t)])
        return cls(layout, bins, columns, np.zeros((t, rows), dtype=np.int64))

    def histogram(self) -> NDArray[np.int64]:
        t, _, k = self.columns.shape
        found = np.zeros((t, self.nodes, k, self.layout.n_columns), dtype=np.int64)
        for tree in range(t):
            for a, first in enumerate(self.layout.first_column):
                cells = (self.node[tree], slice(None), first + self.bins[tree, :, a].astype(int))
                np.add.at(found[tree], cells, self.columns[tree])
        return found

    def descend(self, chosen: NDArray[np.int64]) -> None:
        """Follow the chosen candidates (t, nodes)."""
        for tree, rows in enumerate(self.bins):
            child = child_of(self.layout, rows, chosen[tree][self.node[tree]])
            self.node[tree] = self.node[tree] * self.layout.arity + child
        self.nodes *= self.layout.arity


def classes_of(slots: Encoded) -> NDArray[np.int64]:
    hot = slots.target[:, None] == np.arange(3)
    return (hot & slots.present[:, None]).astype(np.int64)


def random_choice(layout: Layout, rng: Any, t: int, nodes: int) -> NDArray[np.int64]:
    return rng.integers(0, len(layout.candidates), (t, nodes))


def given(masks: Masks, chosen: NDArray[np.int64], secret: bool) -> Any:
    hot = as_one_hot(chosen, len(masks.layout.candidates))
    return masks.engine.input(hot, 0, hot.shape, masks.ring) if secret else hot


def follow(masks: Masks, plain: Plain, levels: int, *, secret: bool, last: bool = False) -> None:
    """Compare histograms at every level of random choices."""
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(look(masks.histogram()), plain.histogram())
    for level in range(1, levels + 1):
        chosen = random_choice(plain.layout, rng, len(plain.bins), plain.nodes)
        choice = given(masks, chosen, secret)
        masks.descend(choice, last=last and level == levels)
        plain.descend(chosen)
        np.testing.assert_array_equal(look(masks.histogram()), plain.histogram())


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("secret", [False, True], ids=["public", "secret"])
@pytest.mark.parametrize("trees", [1, 3])
def test_histograms_are_the_counts_at_every_level(
    name: str, branching: Any, secret: bool, trees: int
) -> None:
    slots, layout = make_slots(domain(), 0, N), Layout(domain(), branching)
    engine = make_engine(name)
    masks = Masks(shared(engine, slots, layout, Z16), n_trees=trees)
    assert (masks.n_trees, masks.n_rows, masks.ring) == (trees, N // trees, Z16)
    levels = 4 if branching == "binary" else 2
    follow(masks, Plain.disjoint(layout, slots, trees), levels, secret=secret)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("trees", [1, 2])
def test_the_last_histogram_of_many_nodes_multiplies_values_into_the_table(
    name: str, trees: int
) -> None:
    slots, layout = make_slots(domain(), 1, N), Layout(domain(), "wary")
    engine = make_engine(name)
    masks = Masks(shared(engine, slots, layout, Z16), n_trees=trees)
    plain = Plain.disjoint(layout, slots, trees)
    follow(masks, plain, 3, secret=True, last=True)
    # 25 nodes with 3 classes are more than 25 columns, so that the masks stayed where they were.
    assert masks.member.shape == (trees, 25, N // trees)
    assert plain.nodes == 125


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
def test_few_nodes_before_the_last_histogram_get_masks(name: str, branching: Any) -> None:
    slots, layout = make_slots(domain(), 1, N), Layout(domain(), branching)
    masks = Masks(shared(make_engine(name), slots, layout, Z16))
    follow(masks, Plain.disjoint(layout, slots, 1), 1, secret=True, last=True)
    assert masks.member.shape == (1, layout.arity, N)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("last", [False, True])
def test_trees_on_sampled_rows(name: str, branching: Any, last: bool) -> None:
    slots, layout = make_slots(domain(), 2, N), Layout(domain(), branching)
    engine = make_engine(name)
    drawn = np.random.default_rng(3).random((4, N)) < 0.6
    sampled = engine.input(drawn.astype(np.int64), 0, drawn.shape, Z16)
    masks = Masks(shared(engine, slots, layout, Z16), n_trees=4, sampled=sampled)
    assert masks.n_rows == N
    columns = classes_of(slots)[None] * drawn[:, :, None]
    bins = np.repeat(slots.bins[None], 4, axis=0)
    plain = Plain(layout, bins, columns, np.zeros((4, N), dtype=np.int64))
    follow(masks, plain, 3 if branching == "binary" else 2, secret=True, last=last)


def with_targets(engine: Engine, layout: Layout, slots: Encoded) -> tuple[SecretTable, Any]:
    y = np.random.default_rng(4).integers(-1000, 1000, slots.n_slots)
    columns = np.stack([np.ones_like(y), y], axis=1) * slots.present[:, None]
    onehot = one_hot(layout, slots)
    shares = [engine.input(x, 0, x.shape, Z32) for x in (onehot, columns)]
    return SecretTable(layout, *shares), columns


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
def test_presence_alone_tells_where_rows_are_if_columns_are_weighted(
    name: str, branching: Any
) -> None:
    slots, layout = make_slots(domain(), 6, N), Layout(domain(), branching)
    table, columns = with_targets(make_engine(name), layout, slots)
    masks = Masks(table, member=np.array([1, 0], dtype=np.uint8))
    plain = Plain(layout, slots.bins[None], columns[None], np.zeros((1, N), dtype=np.int64))
    follow(masks, plain, 2, secret=True)
    inside = plain.node[0] == np.arange(plain.nodes)[:, None]
    np.testing.assert_array_equal(look(masks.member)[0], inside & slots.present)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
def test_a_histogram_may_be_asked_for_twice_or_not_at_all(name: str, branching: Any) -> None:
    slots, layout = make_slots(domain(), 9, N), Layout(domain(), branching)
    engine, rng = make_engine(name), np.random.default_rng(1)
    masks = Masks(shared(engine, slots, layout, Z16))
    plain = Plain.disjoint(layout, slots, 1)
    for asked in (2, 0, 1, 2):
        for _ in range(asked):
            np.testing.assert_array_equal(look(masks.histogram()), plain.histogram())
        if plain.nodes < 25:
            chosen = random_choice(layout, rng, 1, plain.nodes)
            masks.descend(as_one_hot(chosen, len(layout.candidates)))
            plain.descend(chosen)


def test_slots_that_trees_do_not_divide_are_refused() -> None:
    layout = Layout(domain(), "binary")
    table = shared(make_engine("clear"), make_slots(domain(), 0, N), layout, Z16)
    with pytest.raises(HedgerowError, match=r"H501.*90 slots and 4 trees"):
        Masks(table, n_trees=4)


def test_a_level_takes_the_same_rounds_whatever_the_rows_and_nodes() -> None:
    layout = Layout(domain(), "binary")
    rounds = set()
    for n in (20, 70):
        engine = make_engine("three servers")
        slots = make_slots(domain(), 0, n)
        uploads = horizontal_uploads(layout, [n])
        masks = Masks(shared_table(engine, layout, Z16, uploads, {3: slots}))
        meter = engine.network.meter
        for nodes in (1, 2, 4):
            before = meter.snapshot()
            masks.histogram()
            choice = as_one_hot(random_choice(layout, np.random.default_rng(0), 1, nodes), 9)
            hidden = engine.public(choice, Z16)
            masks.descend(hidden)
            rounds.add((meter.snapshot() - before).rounds)
    assert rounds == {3}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("levels", [0, 2])
def test_every_record_is_in_the_leaf_that_the_last_choices_send_it_to(
    name: str, levels: int
) -> None:
    slots, layout = make_slots(domain(), 7, N), Layout(domain(), "binary")
    table, columns = with_targets(make_engine(name), layout, slots)
    masks = Masks(table, member=np.array([1, 0], dtype=np.uint8))
    plain = Plain(layout, slots.bins[None], columns[None], np.zeros((1, N), dtype=np.int64))
    follow(masks, plain, levels, secret=True)
    chosen = random_choice(layout, np.random.default_rng(8), 1, plain.nodes)
    found = look(masks.leaves(given(masks, chosen, True)).masks)
    plain.descend(chosen)
    inside = plain.node == np.arange(plain.nodes)[:, None]
    np.testing.assert_array_equal(found[0], inside & slots.present)
