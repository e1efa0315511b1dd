import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.protocols.growers import orders
from hedgerow.protocols.growers.orders import Entries, OrderView
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import Secret

BINS = np.array([2, 3], dtype=np.int32)


def make(size: int = 0, times: int = 0) -> ReplicatedEngine:
    opening = Opening("places", "server", (size,), independent="a permutation", times=times)
    return ReplicatedEngine(Simulator(3), Leakage([opening]), insecure_seed=b"orders")


def share(engine: ReplicatedEngine, values: object, ring: object = Z32) -> Secret:
    array = np.asarray(values)
    return engine.input(array, 0, array.shape, ring)  # type: ignore[arg-type]


def seen(x: Secret) -> list[int]:
    data = x.data[:, 0].sum(axis=0, dtype=x.ring.dtype)
    found: list[int] = x.ring.signed(data).tolist()
    return found


def spent(engine: ReplicatedEngine) -> Cost:
    reading = engine.network.meter.snapshot()
    return Cost(reading.rounds, reading.payload)


def test_marks_stand_by_attribute_position_and_bin() -> None:
    entries = Entries(10, BINS, 2)
    assert (entries.nodes, entries.rows, entries.marks, entries.size) == (4, 20, 20, 40)
    assert entries.owner.tolist() == [0] * 8 + [1] * 12
    # Positions 0 to 3 hold the nodes 0, 2, 1 and 3: paths read upwards.
    assert entries.cells[:8].tolist() == [0, 1, 10, 11, 5, 6, 15, 16]
    assert entries.cells[8:].tolist() == [2, 3, 4, 12, 13, 14, 7, 8, 9, 17, 18, 19]


@pytest.mark.parametrize("level", range(4))
def test_marks_of_children_come_from_their_parents(level: int) -> None:
    entries = Entries(10, BINS, level)
    node, column = np.divmod(entries.cells, 5)
    children = np.stack([2 * node, 2 * node + 1]) * 5 + column
    assert np.array_equal(children.reshape(-1)[entries.children], entries.next().cells)


@pytest.mark.parametrize(
    ("n", "level", "ring"), [(10, 0, Z16), (32_763, 1, Z16), (32_764, 1, Z32), (1 << 31, 0, Z64)]
)
def test_places_of_all_entries_fit_the_ring(n: int, level: int, ring: object) -> None:
    assert Entries(n, BINS, level).ring == ring


@pytest.mark.parametrize("shape", [(50,), (50, 3)])
def test_running_sums_follow_the_order(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    places, x = rng.permutation(50), rng.integers(-99, 99, shape)
    engine = make(50, 1)
    destinations, values = share(engine, places, Z16), share(engine, x)
    before = spent(engine)
    view = OrderView.of(destinations, "places")
    got = view.running(values)
    order = np.argsort(places)
    assert seen(got) == np.cumsum(x[order], axis=0)[places].tolist()
    cost = orders.cost_of(engine, 50, Z16) + orders.cost_running(engine, shape, Z32)
    assert spent(engine) == before + cost


@pytest.mark.parametrize("wrong", [[0, 1, 1], [0, 1, 3], [0, 1, -1]])
def test_what_is_no_permutation_is_refused(wrong: list[int]) -> None:
    engine = make(3, 1)
    with pytest.raises(HedgerowError, match="H702"):
        OrderView.of(share(engine, wrong), "places")


@pytest.mark.parametrize("n_bins", [1, 2, 5])
def test_rows_are_ordered_by_bin_stably(n_bins: int) -> None:
    bins = np.random.default_rng(n_bins).integers(0, n_bins, 40)
    hot = (bins[:, None] == np.arange(n_bins)).astype(int)
    hot[7], bins[7] = 0, 0
    engine = make()
    shared = share(engine, hot, Z16)
    before = spent(engine)
    place, number, end = orders.by_bin(shared)
    assert spent(engine) == before + orders.cost_by_bin(engine, 40, n_bins, Z16)
    assert seen(place) == np.argsort(np.argsort(bins, kind="stable")).tolist()
    assert seen(number) == bins.tolist()
    assert seen(end) == np.cumsum(np.bincount(bins, minlength=n_bins)).tolist()


@pytest.mark.parametrize(("source", "ring"), [(Z16, Z32), (Z32, Z32), (Z64, Z16)])
def test_numbers_change_rings(source: object, ring: object) -> None:
    engine = make()
    x = share(engine, np.arange(9), source)
    before = spent(engine)
    assert seen(orders.to_ring(x, ring)) == list(range(9))  # type: ignore[arg-type]
    assert spent(engine) == before + orders.cost_to_ring(engine, 9, source, ring)  # type: ignore[arg-type]
