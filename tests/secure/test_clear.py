"""The clear engine passes the interface tests; so do its variants that the tests use."""

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.privacy import Leakage, NoiseSource
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.cost import NOTHING
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Z32
from tests.secure.conformance import Conformance
from tests.secure.engines import ENGINES, clear


@pytest.fixture(scope="module", params=["clear", "two addends", "five addends"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()


class TestClearEngine(Conformance):
    """With one addend and with several."""


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


def test_no_engine_leaves_open_whether_it_is_private() -> None:
    assert "private" in Engine.__abstractmethods__
