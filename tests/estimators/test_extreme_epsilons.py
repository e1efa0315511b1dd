"""Any epsilon and delta: a plan, or a numbered refusal, and either of them at once."""

import signal
from collections.abc import Callable, Iterator

import pytest

from hedgerow import DPBoostingClassifier
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import noise_for_rate, rho_for
from tests.estimators.private_models import PRIVATE, SMALL, small_model, small_rows
from tests.estimators.test_all_accounts import Untouchable

FAR = [5e-324, 1e-300, 1e-100, 1e100, 1.7e308]
WITHIN = [1e-30, 1e-12, 1e6, 1e30]
SECONDS = 20


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """End a test that would go on for ever."""

    def late(*frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(call: Callable[..., object], *arguments: object) -> Code | None:
    try:
        call(*arguments)
    except HedgerowError as error:
        return error.code
    return None


@pytest.mark.parametrize("epsilon", FAR)
@pytest.mark.parametrize("kind", PRIVATE)
def test_beyond_reach_is_refused_before_a_row_is_read(kind: type, epsilon: float) -> None:
    with pytest.raises(HedgerowError) as caught:
        small_model(kind, epsilon).fit(Untouchable(), Untouchable())
    assert caught.value.code is Code.EPSILON_BEYOND_REACH


@pytest.mark.parametrize("epsilon", WITHIN)
@pytest.mark.parametrize("kind", [k for k in PRIVATE if hasattr(k, "plan")])
def test_within_reach_there_is_a_plan_or_a_number(kind: type, epsilon: float) -> None:
    auto = {"max_depth": "auto"} if "max_depth" in SMALL[kind] else {}
    if "Boosting" in kind.__name__:
        auto = {}
    model = small_model(kind, epsilon, **auto)
    refusals = (Code.BAD_EPSILON, Code.BAD_MECHANISM_INPUT, Code.BAD_PARAMETER)
    assert refusal(model.plan, model.domain) in (None, *refusals)


@pytest.mark.filterwarnings("ignore:delta=0.49:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 0.49])
@pytest.mark.parametrize("epsilon", WITHIN)
def test_boosting_at_any_delta(epsilon: float, delta: float) -> None:
    model = small_model(DPBoostingClassifier, epsilon, delta=delta)
    found = refusal(model.fit, *small_rows(DPBoostingClassifier))
    if found is not None:
        assert (found, epsilon < 1e-6) == (Code.BAD_MECHANISM_INPUT, True)
        assert refusal(model.fit, Untouchable(), Untouchable()) is found
        return
    assert 0 < model.privacy_.total().epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("solve", [rho_for, lambda e, d: noise_for_rate(e, d, 0.1, 10)])
def test_noise_for_extreme_guarantees(solve: object) -> None:
    for delta in (5e-324, 0.999):
        for epsilon in (1e-30, 1e30):
            assert solve(epsilon, delta) >= 0
        for epsilon in FAR:
            with pytest.raises(HedgerowError) as caught:
                solve(epsilon, delta)
            assert caught.value.code is Code.EPSILON_BEYOND_REACH
