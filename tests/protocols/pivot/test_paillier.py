"""The linear step as published: sums and descents as in the clear, the same trees, hidden."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from hedgerow.crypto.paillier import Encrypted, Slots
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.launch import run_parties
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.pivot.columns import PeerColumns, transfers
from hedgerow.protocols.pivot.growth import grow_trees, node_splits
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.paillier import PaillierColumns
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.ciphertexts import JointKey
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.ring import Z16, Z32, Ring
from hedgerow.secure.secret import Secret
from hedgerow.trees.growing.nodes import NodeSplits
from tests.protocols.hidden.hidden_runs import child_of, domain
from tests.protocols.pivot import peer_tables
from tests.protocols.pivot.peer_tables import encoded, in_the_clear, plan_for
from tests.protocols.pivot.test_growth import revealed
from tests.secure.engines import IdealProvider, metered, peers, reveal
from tests.secure.replicated.wires import Recorder, everything

LAYOUT = Layout(domain(), "binary")
N = 20
BITS = 512
# Peers of the attributes with 4, 1, 2, 5 and 1 bins.
OWNERS = {2: (0, 1, 1, 0, 1), 3: (0, 1, 2, 2, 1)}
EVERY = list(range(5))


def make_bins(seed: int = 0, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, most, n) for most in LAYOUT.candidates.n_bins], axis=1)


def classes(seed: int = 0, n: int = N) -> np.ndarray:
    return np.eye(3, dtype=np.int64)[np.random.default_rng(seed).integers(0, 3, n)].T


class Clear:
    """The rows in the clear: which node each is in, -1 for none."""

    def __init__(self, bins: np.ndarray, columns: np.ndarray, ring: Ring) -> None:
        self.bins, self.columns, self.ring = bins, columns.astype(ring.dtype), ring
        self.node, self.nodes = np.zeros(len(bins), dtype=np.int64), 1

    def histogram(self) -> np.ndarray:
        k = len(self.columns)
        found = np.zeros((1, self.nodes, k, LAYOUT.n_columns), self.ring.dtype)
        for i, node in enumerate(self.node):
            if node >= 0:
                for j, first in enumerate(LAYOUT.first_column):
                    found[0, node, :, first + self.bins[i, j]] += self.columns[:, i]
        return found

    def go_down(self, nodes: Sequence[int], chosen: Sequence[int]) -> None:
        place = np.full(self.nodes, -1)
        place[list(nodes)] = np.arange(len(nodes))
        at = np.where(self.node >= 0, place[self.node], -1)
        child = child_of(LAYOUT, self.bins, np.asarray(chosen)[np.maximum(at, 0)])
        self.node = np.where(at >= 0, 2 * at + child, -1)
        self.nodes = 2 * len(nodes)


def make_rows(
    engine: Any, columns: np.ndarray, bins: np.ndarray, ring: Ring = Z16, **kwargs: Any
) -> PaillierColumns:
    key = JointKey.insecure_dealt(engine.core, BITS)
    owners = OWNERS[engine.n_parties]
    shares = engine.input(columns, 0, columns.shape, ring)
    return PaillierColumns(LAYOUT, shares[None], owners, dict(enumerate(bins.T)), key, **kwargs)


def splits(nodes: Sequence[int], chosen: Sequence[int]) -> NodeSplits:
    return node_splits(LAYOUT, np.array(nodes, dtype=np.int64), np.array(chosen, dtype=np.int64))


def secret_choice(rows: PaillierColumns, chosen: Sequence[int], ring: Ring = Z16) -> Secret:
    hot = as_one_hot(np.asarray(chosen), len(LAYOUT.candidates))
    return rows.engine.input(hot, 1, hot.shape, ring)


@pytest.fixture(params=[2, 3], ids=lambda m: f"{m} peers")
def engine(request: pytest.FixtureRequest) -> Any:
    return peers(request.param)


PACKED = pytest.mark.parametrize("packed", [True, False], ids=["packed", "one by one"])
# Nodes that are split at each level, and their candidates, of all kinds and owners.
WAY = [([0], [1]), ([0, 1], [3, 6]), ([3, 0, 1], [8, 0, 2])]


@PACKED
def test_public_splits_as_in_the_clear(engine: Any, packed: bool) -> None:
    bins, columns = make_bins(), classes()
    rows, clear = make_rows(engine, columns, bins, packed=packed), Clear(bins, columns, Z16)
    assert np.array_equal(reveal(rows.histogram()), clear.histogram())
    for nodes, chosen in WAY:
        rows.go_down(splits(nodes, chosen))
        clear.go_down(nodes, chosen)
        assert rows.n_nodes == clear.nodes
        assert np.array_equal(reveal(rows.histogram()), clear.histogram())
    # With no histogram in between, no sums are taken from above.
    rows.go_down(splits([5, 2], [1, 4]))
    rows.go_down(splits([0, 3], [2, 2]))
    clear.go_down([5, 2], [1, 4])
    clear.go_down([0, 3], [2, 2])
    assert np.array_equal(reveal(rows.histogram()), clear.histogram())
    assert not rows.engine.leakage.what_was_learned("peer")


@pytest.mark.parametrize(
    ("hide", "packed"),
    [("thresholds", True), ("features", True), ("peers", True), ("peers", False)],
)
def test_secret_choices_as_in_the_clear(engine: Any, hide: str, packed: bool) -> None:
    bins, columns = make_bins(1), classes(1)
    rows, clear = make_rows(engine, columns, bins, packed=packed), Clear(bins, columns, Z16)
    rows.histogram()
    for nodes, chosen in WAY:
        features = LAYOUT.candidates.feature[chosen]
        among = {
            "thresholds": [[int(f)] for f in features],
            "features": [[j for j in EVERY if rows.owners[j] == rows.owners[f]] for f in features],
            "peers": [EVERY] * len(nodes),
        }[hide]
        # Choices may come in a larger ring.
        rows.descend_among(np.asarray(nodes), secret_choice(rows, chosen, Z32), among)
        clear.go_down(nodes, chosen)
        assert np.array_equal(reveal(rows.histogram()), clear.histogram())
    rows.go_down(splits([1, 4], [0, 5]))
    clear.go_down([1, 4], [0, 5])
    assert np.array_equal(reveal(rows.histogram()), clear.histogram())


def test_the_frontier_contract(engine: Any) -> None:
    bins, columns = make_bins(2), classes(2)
    rows, clear = make_rows(engine, columns, bins), Clear(bins, columns, Z16)
    choice = secret_choice(rows, [7])
    rows.descend(choice.reshape(1, *choice.shape))
    clear.go_down([0], [7])
    assert np.array_equal(reveal(rows.histogram()), clear.histogram())


@pytest.mark.parametrize("ring", [Z16, Z32], ids=lambda ring: str(ring.bits))
def test_numbers_of_the_whole_ring_add_up(engine: Any, ring: Ring) -> None:
    """Gradients, say: both signs, secret to all, and wrapping around at every turn."""
    bins = make_bins(3)
    columns = np.random.default_rng(3).integers(0, 2**ring.bits, (2, N))
    rows, clear = make_rows(engine, columns, bins, ring), Clear(bins, columns, ring)
    assert np.array_equal(reveal(rows.histogram()), clear.histogram())
    rows.go_down(splits([0], [2]))
    rows.descend_among(np.array([1, 0]), secret_choice(rows, [6, 0], ring), [[3], EVERY])
    clear.go_down([0], [2])
    clear.go_down([1, 0], [6, 0])
    assert np.array_equal(reveal(rows.histogram()), clear.histogram())


@PACKED
def test_costs_are_those_of_the_meter(engine: Any, packed: bool) -> None:
    columns, bins, found = classes(), make_bins(), []
    key = JointKey.insecure_dealt(engine.core, BITS)
    shares = engine.input(columns, 0, columns.shape, Z16)
    owners = OWNERS[engine.n_parties]

    def encrypt() -> None:
        made = PaillierColumns(
            LAYOUT, shares[None], owners, dict(enumerate(bins.T)), key, packed=packed
        )
        found.append(made)

    spent = metered(engine, encrypt)
    rows = found[0]
    assert spent == rows.cost_encrypt(3)
    # Three columns of a record in one ciphertext, or in three.
    each = N * (1 if packed else 3) * (engine.n_parties - 1) * BITS // 4
    assert spent.bytes == (each,) * engine.n_parties
    assert metered(engine, rows.histogram) == rows.cost_histogram(1, 3, siblings=False)
    wanted = rows.cost_go_down([0], 3)
    assert metered(engine, lambda: rows.go_down(splits([0], [1]))) == wanted
    assert metered(engine, rows.histogram) == rows.cost_histogram(2, 3, siblings=True)
    wanted = rows.cost_go_down([owners[2], owners[3]], 3)
    assert metered(engine, lambda: rows.go_down(splits([0, 1], [3, 6]))) == wanted
    assert metered(engine, rows.histogram) == rows.cost_histogram(4, 3, siblings=True)
    for among in ([[0], [3]], [EVERY, [3]]):
        choice = secret_choice(rows, [1, 6])
        wanted = rows.cost_descend_among(among, 3)
        down = lambda: rows.descend_among(np.array([0, 1]), choice, among)  # noqa: B023, E731
        assert metered(engine, down) == wanted
        assert wanted.rounds == 7
    # What is not split costs nothing.
    none = rows.cost_go_down([], 3)
    assert metered(engine, lambda: rows.go_down(splits([], []))) == none
    assert metered(engine, rows.histogram) == rows.cost_histogram(0, 3, siblings=False)
    assert rows.histogram().shape == (1, 0, 3, LAYOUT.n_columns)


def test_packing_takes_fewer_decryptions() -> None:
    engine: Any = peers(2)
    packed, single = (
        make_rows(engine, classes(), make_bins(), packed=p, secret_choices=False)
        for p in (True, False)
    )
    # 13 bins, of which 9 are with peer 0 and 4 with peer 1.
    assert packed._slots == Slots(3, 88)
    assert sum(single.cost_histogram(1, 3, siblings=False).bytes) == 3 * 13 * 3 * BITS // 4
    assert sum(packed.cost_histogram(1, 3, siblings=False).bytes) == 3 * 13 * BITS // 4


def test_sizes_and_order_of_messages_do_not_depend_on_bins() -> None:
    """Of all records in one bin as of any others; and nothing is sent twice."""
    plans = []
    for bins in (make_bins(4), np.zeros_like(make_bins()), make_bins(4)[::-1]):
        network = Recorder(3)
        engine = AdditiveEngine(network, everything(), provider=IdealProvider)
        rows = make_rows(engine, classes(), bins)
        rows.histogram()
        rows.go_down(splits([0], [1]))
        rows.histogram()
        rows.descend_among(np.array([0, 1]), secret_choice(rows, [1, 6]), [EVERY, [3]])
        rows.histogram()
        plans.append(network.plans)
        assert not engine.leakage.what_was_learned("peer")
        for peer in range(3):
            seen = ciphertexts(network, peer)
            assert len(seen) > 100
            assert len(set(seen)) == len(seen)
    assert plans[0] == plans[1] == plans[2]


def ciphertexts(network: Recorder, peer: int) -> list[bytes]:
    """What a peer received as ciphertexts, one after the other."""
    found = []
    for array in network.views[peer]:
        if array.ndim == 2 and array.shape[1] == BITS // 4:
            found += [row.tobytes() for row in array]
    return found


@pytest.mark.parametrize("bin_", [0, 3], ids=["all go left", "none goes left"])
def test_masks_that_were_multiplied_by_0_and_1_are_new_ciphertexts(bin_: int) -> None:
    network = Recorder(2)
    engine = AdditiveEngine(network, everything(), provider=IdealProvider)
    rows = make_rows(engine, classes(), np.full_like(make_bins(), bin_) * [1, 0, 0, 0, 0])
    parents = {row.tobytes() for row in rows._key.public.write(rows._masks.data[0, 0])}
    network.views[1].clear()
    rows.go_down(splits([0], [1]))
    sent = ciphertexts(network, 1)
    assert len(set(sent)) == len(sent) == N
    one = (1).to_bytes(BITS // 4, "little")
    assert not {*parents, one} & set(sent)
    hist = reveal(rows.histogram())
    assert hist[0, 0].sum() == (N * 5 if bin_ == 0 else 0)


def test_products_with_shares_cannot_be_found_by_trying_all_shares() -> None:
    """Formula 7: who leads knows [v], and a share of 16 bits has few powers of it."""
    network = Recorder(2)
    engine = AdditiveEngine(network, everything(), provider=IdealProvider)
    rows = make_rows(engine, classes(), make_bins(), packed=False)
    network.views[0].clear()
    network.views[1].clear()
    rows.descend_among(np.array([0]), secret_choice(rows, [1]), [[0]])
    key = rows._key.public
    v, *_ = (key.read(blob, "peer 0") for blob in network.views[1])
    _, _, _, products = (key.read(blob, "peer 1") for blob in network.views[0])
    assert (v.size, products.size) == (N, 3 * N)
    powers = set(accumulate([v[0]] * 2**16, lambda x, y: x * y % key.square, initial=key.one))
    assert products[0] not in powers
    bare = Encrypted(key, Slots(1, key.room), 1, v[:1])
    assert bare.multiply(np.array([54_321], dtype=object), bare.slots, 2**16).data[0] in powers


def test_rows_without_room_for_secret_choices_refuse_them(engine: Any) -> None:
    rows = make_rows(engine, classes(), make_bins(), secret_choices=False)
    with pytest.raises(HedgerowError) as caught:
        rows.descend_among(np.array([0]), secret_choice(rows, [0]), [EVERY])
    assert caught.value.code is Code.PLAINTEXT_OVERFLOW


def test_a_key_without_room_is_refused(engine: Any) -> None:
    columns = classes()
    key = JointKey.insecure_dealt(engine.core, 64)
    shares = engine.input(columns, 0, columns.shape, Z16)
    before = engine.network.meter.snapshot()
    with pytest.raises(HedgerowError) as caught:
        PaillierColumns(
            LAYOUT, shares[None], OWNERS[engine.n_parties], dict(enumerate(make_bins().T)), key
        )
    assert caught.value.code is Code.PLAINTEXT_OVERFLOW
    assert (engine.network.meter.snapshot() - before).total(0).payload == 0


def test_bins_that_there_are_not_are_refused(engine: Any) -> None:
    bins = make_bins()
    bins[3, 2] = 2
    with pytest.raises(HedgerowError, match="attribute 2"):
        make_rows(engine, classes(), bins)


def grown(kind: str, hide: Any, n: int = 40) -> tuple[Any, Leakage]:
    """Grow a tree by one of the two linear steps; of hidden ones all shares are joined."""
    bins, columns = make_bins(6, n), classes(6, n)
    # Classes that follow from the bins, but for a few.
    signal = 1 * (bins[:, 0] > 1) + (bins[:, 3] == 2)
    columns[:, : n - 5] = np.eye(3, dtype=np.int64)[signal[: n - 5]].T
    plan = PivotOptions(max_depth=3, hide=hide).plan(domain(), n, owners=OWNERS[2], n_peers=2)
    ledger = Ledger()
    plan.charge(ledger)
    leakage = Leakage(plan.openings(), ledger=ledger)
    engine = AdditiveEngine(Simulator(2), leakage)
    shares = engine.input(columns, 0, columns.shape, plan.ring)
    owned = dict(enumerate(bins.T))
    if kind == "paillier":
        key = JointKey.insecure_dealt(engine.core, BITS)
        rows: Any = PaillierColumns(
            plan.layout, shares[None], plan.owners, owned, key, secret_choices=hide != "nothing"
        )
    else:
        most = plan.domain.n_bins.tolist()
        seeds = PuncturedBins(transfers(engine), plan.owners, most, owned, n)
        rows = PeerColumns(plan.layout, shares[None], seeds)
    tree = grow_trees(rows, plan)
    parts = [tree.shape.first_child, *tree.groups]
    parts += [reveal(x) for x in (tree.choices, tree.leaves) if x is not None]
    return [*parts, tree.opened], leakage


@pytest.mark.parametrize("hide", ["nothing", "thresholds", "features", "peers"])
def test_both_linear_steps_grow_the_same_trees_and_open_the_same(hide: Any) -> None:
    (ours, opened), (published, also) = (grown(kind, hide) for kind in ("seeds", "paillier"))
    assert len(ours) == len(published)
    for mine, its in zip(ours, published, strict=True):
        assert np.array_equal(mine, its)
    assert len(ours[0]) > 3
    assert opened.to_json() == also.to_json()


def apart(network: Network) -> list[Any]:
    """Go down both ways, with the peers that live here, and open the histograms."""
    bins, columns = make_bins(7), classes(7)
    shape = (1, 2, 3, LAYOUT.n_columns)
    leakage = everything(("first", "peer", shape), ("second", "peer", shape))
    with AdditiveEngine(network, leakage) as engine:
        key = JointKey.insecure_dealt(engine.core, BITS)
        at = engine.core.at
        shares = engine.input(columns if at(0) is not None else None, 0, columns.shape, Z16)
        owners = OWNERS[3]
        mine = {j: bins[:, j] for j in EVERY if at(owners[j]) is not None}
        rows = PaillierColumns(LAYOUT, shares[None], owners, mine, key)
        rows.go_down(splits([0], [6]))
        first = engine.open(rows.histogram(), "first", "peer")
        hot = as_one_hot(np.array([1]), len(LAYOUT.candidates))
        choice = engine.input(hot if at(1) is not None else None, 1, hot.shape, Z16)
        rows.descend_among(np.array([1]), choice, [EVERY])
        second = engine.open(rows.histogram(), "second", "peer")
    return [first, second]


@pytest.mark.parametrize(
    ("linear", "hide", "name"),
    [
        ("paillier", "nothing", "iris"),
        ("paillier", "thresholds", "diabetes"),
        ("paillier unpacked", "thresholds", "iris"),
    ],
)
def test_the_program_grows_the_tree_of_the_clear(
    linear: str, hide: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small key, which the program has no way to ask for."""
    asked: list[int] = []

    def dealt(core: Any) -> JointKey:
        asked.append(core.n)
        return deal(core, BITS)

    deal = JointKey.insecure_dealt
    monkeypatch.setattr(JointKey, "insecure_dealt", dealt)
    whole = encoded(name, columns=3, bins=4)
    assert whole.target is not None
    some = slice(None, None, whole.n_slots // 24)
    parts = {part: getattr(whole, part)[some] for part in ("bins", "target", "present")}
    rows = replace(whole, **parts | {"bins": np.asfortranarray(parts["bins"])})
    plan = plan_for(rows, 2, max_depth=2, hide=hide, linear=linear, insecure_dealer=True)
    part, clear = peer_tables.grown(rows, plan), in_the_clear(rows, plan)
    tree = revealed(plan, part)
    assert tree.n_nodes == clear.n_nodes > 3
    assert np.array_equal(tree.apply(rows.bins), clear.apply(rows.bins))
    assert asked == [2]


@pytest.mark.slow
def test_peers_in_processes_of_their_own() -> None:
    clear, wanted = Clear(make_bins(7), classes(7), Z16), []
    for nodes, chosen in (([0], [6]), ([1], [1])):
        clear.go_down(nodes, chosen)
        wanted.append(clear.histogram())
    for end in run_parties(apart, 3):
        assert all(np.array_equal(*pair) for pair in zip(end.value, wanted, strict=True))
