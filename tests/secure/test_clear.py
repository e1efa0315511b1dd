"""The clear engine passes the interface tests; so do its variants that the tests use."""

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.privacy import Leakage, NoiseSource
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.cost import NOTHING
from hedgerow.secure.ring import Z32
from hedgerow.secure.secret import Engine
from tests.secure.conformance import Conformance
from tests.secure.engines import ENGINES, clear, share


@pytest.fixture(scope="module", params=["clear", "two peers", "three peers", "five peers"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()


class TestClearEngine(Conformance):
    """Plain arrays, and additive shares of peers whose primitives a clear engine computes."""


def test_an_input_of_another_shape_is_refused() -> None:
    engine = clear()
    for values in (None, np.arange(3)):
        with pytest.raises(InputError, match="H1"):
            engine.input(values, 0, (2,), Z32)
        with pytest.raises(InputError, match="H1"):
            engine.input_bits(values, 0, (2,))


def test_nothing_is_sent() -> None:
    assert clear().cost("mul", shape=(3,), ring=Z32) == NOTHING


def test_an_engine_is_as_private_as_its_source() -> None:
    assert ClearEngine(Leakage([])).private
    assert not ClearEngine(Leakage([]), NoiseSource.insecure_seeded(1)).private


def test_no_engine_leaves_open_whether_it_is_private_and_how_it_shares() -> None:
    assert {"private", "share_shape"} <= Engine.__abstractmethods__


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_finishes_as_often_as_it_is_told(name: str) -> None:
    with ENGINES[name]() as engine:
        share(engine, np.arange(3), Z32)
    engine.finish()


class NoShuffle(ClearEngine):
    """A clear engine that leaves out what an engine may leave out."""

    can_shuffle = False
    permutation, shuffle, unshuffle = Engine.permutation, Engine.shuffle, Engine.unshuffle


def test_an_engine_that_cannot_shuffle_says_so() -> None:
    engine = NoShuffle(Leakage([]))
    x = engine.public(np.arange(3), Z32)
    other = clear().permutation(3)
    object.__setattr__(other, "engine", engine)
    for attempt in (
        lambda: engine.permutation(3),
        lambda: engine.shuffle(x, other),
        lambda: engine.unshuffle(x, other),
    ):
        with pytest.raises(InputError, match="H501"):
            attempt()
