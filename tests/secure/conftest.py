"""Fixtures of the secure room."""

import pytest

pytest.register_assert_rewrite("tests.secure.conformance")

from hedgerow.secure.secret import Engine  # noqa: E402
from tests.secure.engines import ENGINES  # noqa: E402


@pytest.fixture(scope="module", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine in turn: what is written on top must run on all of them."""
    return ENGINES[request.param]()
