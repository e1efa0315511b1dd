"""An opening that a release was to pay for, where nobody can tell whether it did."""

import pytest

from hedgerow.errors import Code, LeakageError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import open_halves
from hedgerow.secure.ring import Z16


def rounds(network: Simulator) -> list[int]:
    return [network.meter.snapshot().total(party).rounds for party in range(3)]


@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_nothing_leaves_an_engine_without_a_ledger(engine: str) -> None:
    """Not a byte: the refusal stands in front of the message."""
    network = Simulator(3)
    leakage = Leakage([Opening("count", "server", (1,), release="split")])
    made = ClearEngine(leakage) if engine == "clear" else ReplicatedEngine(network, leakage)
    secret = made.public([7], Z16)
    before = rounds(network)
    with pytest.raises(LeakageError) as caught:
        made.open(secret, "count", "server")
    assert caught.value.code is Code.NOT_CHARGED
    assert rounds(network) == before


def test_no_half_exists_without_a_ledger() -> None:
    leakage = Leakage([Opening("answer", "analyst zoe", (1,), release="vote")])
    engine = ReplicatedEngine(Simulator(3), leakage)
    with pytest.raises(LeakageError) as caught:
        open_halves(engine, engine.public([7], Z16), "answer", "analyst zoe")
    assert caught.value.code is Code.NOT_CHARGED
