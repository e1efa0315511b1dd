import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.run import run_topdown
from tests.protocols.topdown.secure_counts import plan_of, table_of
from tests.protocols.topdown.topdown_cases import grow_topdown, parts, plan, table

TABLES = {"amsterdam": table_of(0), "berlin": table_of(1)}


def test_servers_in_processes_draw_what_the_simulator_draws_from_a_seed() -> None:
    plan = plan_of(n_splits=2, max_depth=2, epsilon=10.0)
    here = run_topdown(plan, TABLES, "simulate", seed=11)
    apart = run_topdown(plan, TABLES, "processes", seed=11)
    assert apart.tree.to_dict() == here.tree.to_dict()
    assert apart.traffic == here.traffic
    assert apart.learned == here.learned


@pytest.mark.parametrize("method", ["noisy-counts", "local-rnm"])
def test_owners_in_processes_grow_the_tree_that_owners_here_grow(method: str) -> None:
    """Owners have no address: they call the coordinator, and nobody calls them."""
    made = plan(method, owners=2, n_splits=3, max_depth=3)
    tables = dict(zip(["north", "south"], parts(table(400), 2), strict=True))
    here = run_topdown(made, tables, seed=5)
    # Processes are the same for both; counts go between daemons, too (`tests/everywhere`).
    if method == "local-rnm":
        apart = run_topdown(made, tables, "processes", seed=5)
        assert apart.tree == here.tree
        assert apart.traffic == here.traffic
    sources = [NoiseSource.insecure_seeded(5 + i) for i in range(2)]
    owners = {
        name: Owner(each, made, name=name, source=source)
        for (name, each), source in zip(tables.items(), sources, strict=True)
    }
    # The same messages without a network, and the same noise.
    assert grow_topdown(made, owners) == (here.tree, here.traffic)
    assert (here.ledger, here.left_out, here.meter.parties) == (None, [], ())


def test_in_the_clear_without_noise_it_is_the_same_tree() -> None:
    plan = plan_of(n_splits=4, epsilon=None)
    clear = run_topdown(plan, TABLES, "clear")
    simulated = run_topdown(plan, TABLES, "simulate")
    assert clear.tree.to_dict() == simulated.tree.to_dict()
    assert clear.learned == simulated.learned
    assert clear.traffic == simulated.traffic
    assert (clear.meter.rounds, clear.left_out) == (0, [])


@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_noise_is_the_systems_unless_a_seed_is_given(engine: str) -> None:
    plan = plan_of(n_splits=2, max_depth=2, epsilon=0.5)
    private = run_topdown(plan, TABLES, engine)
    assert private.ledger.total().epsilon == pytest.approx(0.5)
    assert 0 < private.ledger.total().delta < 2**-50
    seeded = [run_topdown(plan, TABLES, engine, seed=3) for _ in range(2)]
    assert seeded[0].tree.to_dict() == seeded[1].tree.to_dict()
    assert seeded[0].ledger.total().epsilon == float("inf")
    trees = {str(run_topdown(plan, TABLES, engine).tree.to_dict()) for _ in range(3)}
    assert len(trees) > 1


def test_engines_are_named() -> None:
    with pytest.raises(HedgerowError) as error:
        run_topdown(plan_of(), TABLES, "abacus")  # type: ignore[arg-type]
    assert error.value.code is Code.BAD_PARAMETER
