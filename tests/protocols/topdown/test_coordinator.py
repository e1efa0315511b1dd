"""The coordinator: best-first growth from answers, dropouts, and answers that are none."""

import heapq
import json

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.wire import Ask, TopDownAnswer
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.criteria import criterion_named
from hedgerow.trees.growing.scoring import unsplit_scores
from hedgerow.trees.tree import Tree
from tests.protocols.topdown.topdown_cases import (
    METHODS,
    grow_topdown,
    owners,
    parts,
    plan,
    rows,
    run,
    table,
)


def _oracle(encoded: Encoded, n_splits: int, max_depth: int, criterion: str) -> list[int]:
    """Algorithm 1 without noise, one leaf at a time, on plain rows; sizes of the leaves."""
    made = TopDownOptions(max_depth=max_depth).plan(encoded.domain)
    grown = Rows(encoded, made.candidates)
    score = criterion_named(criterion, "classes")
    depth, queue, leaves = {0: 1}, [], {0}

    def push(node: int) -> None:
        scores = grown.scores([node], score)[0]
        best = int(np.argmax(np.round(scores, 6)))
        gain = scores[best] - unsplit_scores(grown.counts([node]), score)[0]
        size = int(grown.sizes([node])[0])
        if size and gain / size > 0.01:
            heapq.heappush(queue, (-round(gain, 6), node, best))

    push(0)
    for _ in range(n_splits):
        if not queue:
            break
        _, node, best = heapq.heappop(queue)
        first = int(grown.split([node], [best])[0])
        leaves = (leaves - {node}) | {first, first + 1}
        for child in (first, first + 1):
            depth[child] = depth[node] + 1
            if depth[child] <= max_depth:
                push(child)
    return sorted(grown.sizes(sorted(leaves)).tolist())


def _sizes(tree: Tree) -> list[int]:
    return sorted(tree.weight[tree.feature < 0].astype(int).tolist())


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("n_splits", [1, 4, 9, 40])
def test_without_noise_it_is_algorithm_1(criterion: str, n_splits: int) -> None:
    whole = table()
    made = plan(
        "single-machine",
        epsilon=None,
        criterion=criterion,
        n_splits=n_splits,
        min_gain=0.01,
        error=0.0,
    )
    tree, _ = grow_topdown(made, owners(made, whole))
    assert _sizes(tree) == _oracle(whole, n_splits, 4, criterion)


@pytest.mark.parametrize("method", ["noisy-counts", "local-rnm"])
@pytest.mark.parametrize("histograms", ["feature", "split"])
def test_without_noise_owners_grow_the_tree_of_one(method: str, histograms: str) -> None:
    whole = table()
    # Rows dealt so that every owner has the same best split: then its choice is the common one.
    same = {f"owner {i}": whole for i in range(3)}
    one = plan("single-machine", epsilon=None, min_gain=0.01)
    several = plan(method, epsilon=None, histograms=histograms, min_gain=0.01)
    expected, _ = grow_topdown(one, owners(one, whole))
    source = NoiseSource.insecure_seeded(0)
    parties = {name: Owner(each, several, name=name, source=source) for name, each in same.items()}
    tree, _ = grow_topdown(several, parties)
    assert np.array_equal(tree.feature, expected.feature)
    assert np.array_equal(tree.cut, expected.cut)
    assert np.array_equal(tree.value, 3 * expected.value)


@pytest.mark.parametrize("lookahead", [None, 1, 2])
def test_looking_ahead_changes_rounds_and_not_the_tree(lookahead: int | None) -> None:
    deep = {"epsilon": None, "n_splits": 30, "max_depth": 7, "min_gain": 0.0}
    made = plan("single-machine", lookahead=lookahead, **deep)
    tree, traffic = grow_topdown(made, owners(made))
    plain = plan("single-machine", **deep)
    expected, least = grow_topdown(plain, owners(plain))
    assert np.array_equal(tree.value[tree.feature < 0].sum(axis=0), expected.value[0])
    assert _sizes(tree) == _sizes(expected)
    assert traffic.rounds >= least.rounds
    if lookahead == 1:
        assert traffic.rounds > 20 > 2 * least.rounds


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seeds_give_the_same_tree(method: str) -> None:
    made = plan(method)
    trees = [grow_topdown(made, owners(made))[0].to_json() for _ in range(2)]
    assert trees[0] == trees[1]
    assert trees[0] != grow_topdown(made, owners(made, seed=77))[0].to_json()


@pytest.mark.parametrize("method", METHODS)
def test_owners_go_on_from_their_states(method: str) -> None:
    made = plan(method)
    expected = grow_topdown(made, owners(made))[0].to_json()
    parties = owners(made)
    tables = [table()] if made.needs_curator else parts(table(), 3)
    coordinator = Coordinator(made, tuple(parties))
    while asks := coordinator.asks():
        for i, (name, ask) in enumerate(asks.items()):
            answer = parties[name].answer(ask)
            at = tables[int(name.split()[1])]
            parties[name] = Owner.resume(
                at, made, parties[name].state(), name=name, source=parties[name].source
            )
            assert parties[name].answer(ask) == answer, i
            coordinator.hear(name, answer)
    assert coordinator.tree().to_json() == expected


def test_growth_goes_on_without_an_owner_who_dropped_out() -> None:
    made = plan("noisy-counts")
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties), least=2)
    run(coordinator, parties, rounds=2)
    coordinator.drop("owner 1")
    assert coordinator.present == ("owner 0", "owner 2")
    run(coordinator, parties)
    tree = coordinator.tree()
    held = sum(owner.counts.n_records for name, owner in parties.items() if name != "owner 1")
    assert tree.weight[0] == pytest.approx(held, abs=200)


def test_an_answer_before_dropping_out_counts() -> None:
    made = plan("noisy-counts", epsilon=None)
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties))
    asks = coordinator.asks()
    coordinator.hear("owner 0", parties["owner 0"].answer(asks["owner 0"]))
    coordinator.drop("owner 0")
    coordinator.hear("owner 1", parties["owner 1"].answer(asks["owner 1"]))
    coordinator.hear("owner 2", parties["owner 2"].answer(asks["owner 2"]))
    assert coordinator.round == 1
    assert set(coordinator.asks()) == {"owner 1", "owner 2"}


def test_a_run_may_wait_for_everybody() -> None:
    made = plan("noisy-counts")
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties), dropouts="wait")
    coordinator.drop("owner 1")
    assert set(coordinator.asks()) == set(parties)
    run(coordinator, parties)
    assert coordinator.tree().n_leaves > 1


def test_too_few_owners_end_a_run_that_can_be_resumed() -> None:
    made = plan("noisy-counts")
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties), least=3)
    with pytest.raises(HedgerowError) as caught:
        coordinator.drop("owner 1")
    assert caught.value.code is Code.TOO_FEW_OWNERS
    run(coordinator, parties)
    assert coordinator.asks() == {}


def _expect(code: Code, coordinator: Coordinator, name: str, answer: bytes) -> None:
    before = coordinator.asks(), coordinator.traffic
    with pytest.raises(HedgerowError) as caught:
        coordinator.hear(name, answer)
    assert caught.value.code is code
    assert (coordinator.asks(), coordinator.traffic) == before


def test_answers_that_are_none_leave_everything_as_it_was() -> None:
    made = plan("local-rnm")
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties))
    run(coordinator, parties, rounds=2)
    asks = coordinator.asks()
    good = parties["owner 0"].answer(asks["owner 0"])
    read = TopDownAnswer.from_bytes(good)
    head, _, tail = good.partition(b"\n")

    def changed(**fields: object) -> bytes:
        return json.dumps({**json.loads(head), **fields}).encode() + b"\n" + tail

    for bad in (b"", b"{}", b"\xff\xfe", good[:-1], good + b"x", head, changed(version=9)):
        _expect(Code.BAD_ANSWER, coordinator, "owner 0", bad)
    unhashable = [["weight", ["i8"], [2]]]
    for arrays in (
        [],
        unhashable,
        [["a", "i8", [0, 1 << 39, 1 << 39]]],
        [["weight", "f8", [2]]],
        [["weight", "i8", [-1]]],
        [["a", "i8", [1 << 60]]],
    ):
        _expect(Code.BAD_ANSWER, coordinator, "owner 0", changed(arrays=arrays))
    _expect(Code.UNEXPECTED_ANSWER, coordinator, "owner 0", changed(plan="0" * 64))
    _expect(Code.UNEXPECTED_ANSWER, coordinator, "owner 0", changed(round=0))
    # A leaf that was not asked about.
    other = [*list(read.nodes)[:-1], 0]
    _expect(Code.UNEXPECTED_ANSWER, coordinator, "owner 0", changed(nodes=other))
    far = TopDownAnswer(
        made.digest, read.round, read.nodes, {**read.arrays, "choice": read.arrays["choice"] + 999}
    )
    _expect(Code.BAD_ANSWER, coordinator, "owner 0", far.to_bytes())
    _expect(Code.UNEXPECTED_ANSWER, coordinator, "stranger", good)
    coordinator.hear("owner 0", good)
    coordinator.hear("owner 0", good)  # the same bytes again are no harm
    moved = {**read.arrays, "weight": read.arrays["weight"] + 1}
    repeated = TopDownAnswer(made.digest, read.round, read.nodes, moved).to_bytes()
    _expect(Code.UNEXPECTED_ANSWER, coordinator, "owner 0", repeated)
    for name in ("owner 1", "owner 2"):
        coordinator.hear(name, parties[name].answer(asks[name]))
    run(coordinator, parties)
    expected = grow_topdown(made, owners(made))[0]
    assert coordinator.tree().to_json() == expected.to_json()


def test_a_leaf_that_nothing_can_divide_is_not_split() -> None:
    bins = np.asfortranarray(np.tile([[0], [1]], (300, 1)).astype(np.uint8))
    only = Domain(
        attributes=(Attribute(name="b", kind="numeric", bounds=(0, 2), bins=2),),
        target=Target(name="y", classes=(0, 1)),
        capacity=1000,
    )
    whole = Encoded(only, bins, bins[:, 0].copy(), np.ones(600, np.bool_))
    for method in METHODS:
        made = TopDownOptions(epsilon=50.0, method=method, max_depth=5).plan(only)
        tree, _ = grow_topdown(made, owners(made, whole))
        assert tree.n_leaves == 2


def test_names_of_owners_are_distinct_and_not_too_many() -> None:
    made = plan("noisy-counts")
    for names in (("a", "a"), (), tuple("abcd"), ("a", "server 0")):
        with pytest.raises(HedgerowError) as caught:
            Coordinator(made, names)
        assert caught.value.code is Code.BAD_PARAMETER


def test_an_owner_without_rows_takes_part_unseen() -> None:
    made = plan("noisy-counts")
    tables = [*parts(table(), 2), rows(table(), np.zeros(0, dtype=np.int64))]
    parties = {
        f"owner {i}": Owner(each, made, name=f"owner {i}", source=NoiseSource.insecure_seeded(i))
        for i, each in enumerate(tables)
    }
    tree, _ = grow_topdown(made, parties)
    assert tree.weight[0] == pytest.approx(1200, abs=200)


def test_what_travels_is_what_the_heading_says() -> None:
    made = plan("noisy-counts", owners=3)
    parties = owners(made)
    coordinator = Coordinator(made, tuple(parties))
    cells = made.candidates.total_bins * made.n_classes
    sent = received = 0
    while asks := coordinator.asks():
        for name, ask in asks.items():
            answer = parties[name].answer(ask)
            m, phase = len(Ask.from_bytes(ask).nodes), Ask.from_bytes(ask).phase
            body = 8 * m * (made.n_classes if phase == "leaves" else 1 + cells)
            assert len(answer.partition(b"\n")[2]) == body
            sent, received = sent + len(ask), received + len(answer)
            coordinator.hear(name, answer)
    assert coordinator.traffic.sent == sent
    assert coordinator.traffic.received == received
    assert coordinator.traffic.rounds <= made.max_depth + 2
