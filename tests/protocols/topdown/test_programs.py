import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.topdown.programs import run_secure
from tests.net.readings import same_bytes
from tests.protocols.topdown.secure_counts import plan_of, table_of

TABLES = {"amsterdam": table_of(0), "berlin": table_of(1)}


def test_servers_in_processes_grow_the_tree_that_the_simulator_grows() -> None:
    """Real processes, TLS and messages: tree, ledger, openings, rounds and bytes are the same."""
    plan = plan_of(n_splits=2, max_depth=2, epsilon=10.0)
    here = run_secure(plan, TABLES, "simulate", seed=11)
    apart = run_secure(plan, TABLES, "processes", seed=11)
    assert apart.tree.to_dict() == here.tree.to_dict()
    assert apart.traffic == here.traffic
    assert apart.ledger.to_json() == here.ledger.to_json()
    assert apart.learned == here.learned
    assert apart.meter.rounds == here.meter.rounds > 100
    assert apart.meter.payload == here.meter.payload
    assert same_bytes(apart.meter, here.meter)


def test_in_the_clear_without_noise_it_is_the_same_tree() -> None:
    plan = plan_of(n_splits=4, epsilon=None)
    clear = run_secure(plan, TABLES, "clear")
    simulated = run_secure(plan, TABLES, "simulate")
    assert clear.tree.to_dict() == simulated.tree.to_dict()
    assert clear.learned == simulated.learned
    assert clear.traffic == simulated.traffic
    assert (clear.meter.rounds, clear.left_out) == (0, [])


@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_noise_is_the_systems_unless_a_seed_is_given(engine: str) -> None:
    plan = plan_of(n_splits=2, max_depth=2, epsilon=0.5)
    private = run_secure(plan, TABLES, engine)
    assert private.ledger.total().epsilon == pytest.approx(0.5)
    assert 0 < private.ledger.total().delta < 2**-50
    seeded = [run_secure(plan, TABLES, engine, seed=3) for _ in range(2)]
    assert seeded[0].tree.to_dict() == seeded[1].tree.to_dict()
    assert seeded[0].ledger.total().epsilon == float("inf")
    trees = {str(run_secure(plan, TABLES, engine).tree.to_dict()) for _ in range(3)}
    assert len(trees) > 1


def test_engines_are_named() -> None:
    with pytest.raises(HedgerowError) as error:
        run_secure(plan_of(), TABLES, "abacus")  # type: ignore[arg-type]
    assert error.value.code is Code.BAD_PARAMETER
