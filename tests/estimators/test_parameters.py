"""Checks of parameters."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.parameters import check_parameter, generator, is_count


@pytest.mark.parametrize(("value", "ok"), [(1, True), (np.int32(3), True), (0, False)])
def test_counts(value: object, ok: bool) -> None:
    assert is_count(value) is ok


@pytest.mark.parametrize("value", [True, 1.0, "1", None, np.float64(2)])
def test_what_is_no_count(value: object) -> None:
    assert not is_count(value)


def test_a_refusal_names_the_parameter() -> None:
    check_parameter("max_depth", 3, ok=True, expected="must be 3")
    with pytest.raises(HedgerowError, match=r"max_depth=4") as caught:
        check_parameter("max_depth", 4, ok=False, expected="must be 3")
    assert caught.value.code is Code.BAD_PARAMETER


def test_generators_repeat_for_a_seed() -> None:
    assert generator(1).integers(100) == generator(1).integers(100)
    assert generator(np.random.RandomState(1)).integers(100) >= 0
