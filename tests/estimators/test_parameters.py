"""Checks of parameters."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.parameters import check_parameter, generator, is_count
from hedgerow.protocols.contract import check_epsilon


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


@pytest.mark.parametrize(
    "epsilon", [0, -1.0, np.inf, np.nan, None, "1", True, 1j, 10**400], ids=lambda e: repr(e)[:6]
)
def test_epsilon_is_a_positive_finite_number(epsilon: object) -> None:
    check_epsilon(0.5)
    check_epsilon(np.float32(2))
    with pytest.raises(HedgerowError) as caught:
        check_epsilon(epsilon)
    assert caught.value.code is Code.BAD_EPSILON


@pytest.mark.parametrize(
    ("epsilon", "noise", "fix"),
    [
        (np.inf, "splits+leaves", "set noise='none' instead"),
        (np.inf, "none", "leave epsilon out"),
        (0.0, "none", "leave epsilon out"),
        (0.0, "leaves", "choose an epsilon such as 1.0"),
        (np.inf, None, "use an estimator that makes no claim"),
    ],
)
def test_what_helps_where_there_is_a_way_without_noise(
    epsilon: float, noise: str | None, fix: str
) -> None:
    with pytest.raises(HedgerowError) as caught:
        check_epsilon(epsilon, noise=noise)
    assert fix in caught.value.fix
