"""Fixtures of the secure room."""

import pytest

pytest.register_assert_rewrite("tests.secure.conformance")

from hedgerow.secure.secret import Engine  # noqa: E402
from tests.secure.engines import ENGINES  # noqa: E402


@pytest.fixture(scope="module", params=[name for name in ENGINES if name != "three peers"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine in turn: what is written on top must run on all of them.

    With one, two and five numbers that add up to a value; three are left to `Conformance`.
    """
    return ENGINES[request.param]()
