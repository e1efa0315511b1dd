import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from hedgerow.audit.bounds import ceiling, epsilon_lower
from hedgerow.audit.engine import AuditTarget, Result, audit, audit_all, repeated
from hedgerow.audit.events import choose
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.accounting import Relation
from hedgerow.privacy.source import NoiseSource


def seeded(seed: int = 1) -> NoiseSource:
    return NoiseSource.insecure_seeded(seed)


def bernoulli(rate: float, runs: int, source: NoiseSource) -> np.ndarray:
    """Draw 1 with the probability that is the input."""
    return source.integers(10**6, runs) < rate * 10**6


def coin(first: float, second: float, **more) -> AuditTarget:
    return AuditTarget(
        "coin", bernoulli, [("two coins", first, second)], **{"claimed": 1.0, **more}
    )


class Scripted:
    """A target whose law differs between the choosing and the measuring half."""

    def __init__(self, *laws: Callable[[int, int], np.ndarray]) -> None:
        self.laws = laws
        self.calls: list[tuple[object, int]] = []

    def __call__(self, value: int, runs: int, source: NoiseSource) -> np.ndarray:
        law = self.laws[min(len(self.calls) // 2, len(self.laws) - 1)]
        self.calls.append((value, runs))
        return law(value, runs)


def tells(value: int, runs: int) -> np.ndarray:
    return np.full(runs, value)


def hides(value: int, runs: int) -> np.ndarray:
    return np.arange(runs) % 2


def test_a_known_pair() -> None:
    result = audit(coin(0.8, 0.2), 20_000, seeded())
    assert 0.9 * math.log(4) < result.attacked < math.log(4)
    assert result.attacked == epsilon_lower(
        *(sorted(result.hits)[1], 10_000, min(result.hits), 10_000)
    )


def test_what_a_result_says() -> None:
    result = audit(coin(0.8, 0.2, proven=2.0, delta=1e-9, kind="estimator"), 2_001, seeded())
    assert isinstance(result, Result)
    assert (result.target, result.kind, result.sound) == ("coin", "estimator", True)
    assert (result.claimed, result.proven, result.delta) == (1.0, 2.0, 1e-9)
    assert result.relation is Relation.ADD_REMOVE
    assert (result.runs, result.pair) == (2_001, "two coins")
    assert result.confidence == 0.9995
    assert result.false_alarm == 0.001
    assert result.ceiling == ceiling(1_001, 1e-9)
    assert result.caught
    assert not result.refuted
    assert result.seconds > 0
    assert "outcome[0]" in result.event


@pytest.mark.parametrize(("pair", "likelier"), [((0.9, 0.5), "input"), ((0.5, 0.9), "neighbour")])
def test_direction_names_the_side_of_the_event(pair: tuple[float, float], likelier: str) -> None:
    result = audit(coin(*pair), 5_000, seeded())
    # Of {0} and {1} the rarer outcome of the bent coin tells more: ln 5 against ln 1.8.
    other = {"input": "neighbour", "neighbour": "input"}[likelier]
    assert result.direction == f"likelier on the {other}"
    assert result.event in ("outcome[0] is 0", "outcome[0] <= 0")
    assert result.attacked == pytest.approx(math.log(5), abs=0.4)


def test_same_seed_same_result() -> None:
    first, again, other = (audit(coin(0.6, 0.4), 3_000, seeded(s)) for s in (5, 5, 6))
    assert dataclasses.replace(first, seconds=0) == dataclasses.replace(again, seconds=0)
    assert first.hits != other.hits


def test_no_difference_proves_nothing() -> None:
    assert audit(coin(0.5, 0.5), 5_000, seeded()).attacked == 0.0


def test_no_difference_at_all_in_a_constant() -> None:
    still = AuditTarget("still", lambda value, runs, source: np.zeros(runs, int), [("", 0, 1)], 0.1)
    assert audit(still, 1_000, seeded()).attacked == 0.0


def test_certainty_reaches_the_ceiling() -> None:
    result = audit(coin(1.0, 0.0), 10_000, seeded())
    assert result.attacked == pytest.approx(result.ceiling)
    assert result.ceiling == pytest.approx(math.log(5_000 / 7.6), abs=0.01)


def test_the_leaking_pair_is_found_among_others() -> None:
    pairs = [("same", 0.5, 0.5), ("far", 0.9, 0.3), ("near", 0.5, 0.45)]
    result = audit(AuditTarget("three", bernoulli, pairs, 1.0), 4_000, seeded())
    assert result.pair == "far"


def test_fixed_number_of_runs() -> None:
    script = Scripted(tells)
    pairs = [("a", 0, 1), ("b", 2, 2), ("c", 3, 3)]
    audit(AuditTarget("script", script, pairs, 1.0), 301, seeded())
    # Every pair is tried on the first half, the chosen one measured on the second.
    assert script.calls == [(v, 150) for v in (0, 1, 2, 2, 3, 3)] + [(0, 151), (1, 151)]


def test_runs_that_choose_do_not_measure() -> None:
    """A perfect separation in the choosing half counts for nothing by itself."""
    result = audit(
        AuditTarget("script", Scripted(tells, hides), [("", 0, 1)], 1.0), 2_000, seeded()
    )
    assert result.attacked == 0.0


def test_runs_that_measure_do_not_choose() -> None:
    """The event that would have been best on the measuring half was fixed before it was run."""
    script = Scripted(lambda value, runs: np.full(runs, 7 + value), tells)
    result = audit(AuditTarget("script", script, [("", 0, 1)], 1.0), 2_000, seeded())
    assert "7" in result.event or "8" in result.event
    assert result.attacked == 0.0


def test_choosing_and_measuring_on_the_same_runs_gives_false_alarms() -> None:
    """A thousand values are likelier by exp(0.3) under one input, a thousand under the other.

    Among so many values chance looks like evidence: on the runs that chose it, the set of likelier
    values seems to prove more than the truth.
    """
    claimed, runs, repeats = 0.3, 20_000, 10
    rng = np.random.default_rng(3)
    shuffled = rng.permutation(2_000)

    def many_values(value: int, count: int, source: NoiseSource) -> np.ndarray:
        favoured = rng.random(count) < 1 / (1 + math.exp(-claimed))
        return shuffled[rng.integers(0, 1_000, count) + 1_000 * (favoured == value)]

    naive, results = [], []
    for _ in range(repeats):
        first, second = (many_values(side, runs, seeded()) for side in (0, 1))
        choice = choose(first.reshape(-1, 1), second.reshape(-1, 1))
        hits = [
            np.count_nonzero(choice.event.contains(rows.reshape(-1, 1))) for rows in (first, second)
        ]
        here, there = hits if choice.likelier == 0 else hits[::-1]
        naive.append(float(epsilon_lower(here, runs, there, runs)))
        results.append(
            audit(AuditTarget("many", many_values, [("", 0, 1)], claimed), runs, seeded())
        )
    assert sum(bound > claimed for bound in naive) == repeats
    assert not any(result.caught for result in results)


def test_a_tight_claim_is_not_refuted_in_many_repeats() -> None:
    """False alarms happen at most once in 1,000; here the claim is met exactly."""
    target = coin(0.6, 0.3, claimed=math.log(2))
    source = seeded(11)
    results = [audit(target, 400, source) for _ in range(300)]
    assert not any(result.caught for result in results)
    assert max(result.attacked for result in results) > 0.25


def test_delta_is_forgiven() -> None:
    """A twentieth of the runs gives the input away, the others nothing."""

    def leak(value: int, runs: int, source: NoiseSource) -> np.ndarray:
        told = source.integers(20, runs) == 0
        return np.where(told, value, 2 + source.integers(3, runs))

    pairs = [("", 0, 1)]
    assert audit(AuditTarget("leak", leak, pairs, 0.1), 10_000, seeded()).attacked > 3
    assert audit(AuditTarget("leak", leak, pairs, 0.1, delta=0.06), 10_000, seeded()).attacked == 0


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.int64, np.uint64])
def test_outcomes_of_any_integer_type(dtype: type) -> None:
    target = AuditTarget("t", lambda v, runs, source: np.full(runs, v, dtype), [("", 0, 1)], 1.0)
    assert audit(target, 1_000, seeded()).attacked > 4


def test_rows_of_a_model_are_one_outcome() -> None:
    """Structure code and two leaf labels; the labels agree on one input and not on the other."""

    def model(value: int, runs: int, source: NoiseSource) -> np.ndarray:
        labels = source.integers(2, (runs, 2))
        labels[:, 1] = labels[:, 0] ^ value
        return np.column_stack([np.full(runs, 12345), labels])

    assert audit(AuditTarget("m", model, [("", 0, 1)], 1.0), 4_000, seeded()).attacked > 5


def test_proven_is_claimed_if_sound_and_unknown_if_not() -> None:
    assert coin(0.5, 0.5).holds == 1.0
    assert coin(0.5, 0.5, sound=False).holds == math.inf
    assert coin(0.5, 0.5, sound=False, proven=2.0).holds == 2.0


def test_the_default_source_is_the_operating_system() -> None:
    seen = []

    def run(value: int, runs: int, source: NoiseSource) -> np.ndarray:
        seen.append(source.private)
        return np.zeros(runs, int)

    target = AuditTarget("t", run, [("", 0, 1)], 1.0, runs=500)
    assert audit(target).runs == 500
    audit_all([target])
    assert all(seen)


def test_several_audits_widen_each_bound() -> None:
    alone, one_of_ten = (audit(coin(0.8, 0.2), 4_000, seeded(), tests=t) for t in (1, 10))
    assert one_of_ten.confidence == pytest.approx(0.99995)
    assert one_of_ten.false_alarm == pytest.approx(0.0001)
    assert one_of_ten.attacked < alone.attacked
    assert one_of_ten.ceiling < alone.ceiling


def test_all_together_keep_the_probability_of_a_false_alarm() -> None:
    targets = [coin(0.8, 0.2, runs=1_000), coin(0.5, 0.5, runs=8_000)]
    results = audit_all(targets, 4_000, seeded())
    assert [result.runs for result in results] == [1_000, 4_000]
    assert sum(result.false_alarm for result in results) == pytest.approx(0.001)
    assert results[0].hits == audit_all(targets, 2_000, seeded())[0].hits


def test_repeated_draws_every_run_in_one_call() -> None:
    shapes = []

    def mechanism(values: np.ndarray, source: NoiseSource) -> np.ndarray:
        shapes.append(values.shape)
        return values

    assert repeated(mechanism)([1, 2, 3], 5, seeded()).tolist() == [[1, 2, 3]] * 5
    assert repeated(mechanism)(4, 2, seeded()).tolist() == [4, 4]
    assert shapes == [(5, 3), (2,)]


@pytest.mark.parametrize(
    ("run", "runs", "tests", "found"),
    [
        (bernoulli, 99, 1, "99 runs"),
        (bernoulli, 100, 0, "tests=0"),
        (lambda v, n, s: np.zeros(n), 100, 1, "float64"),
        (lambda v, n, s: np.zeros(n - 1, int), 100, 1, r"\(49,\)"),
        (lambda v, n, s: np.zeros((n, 2, 2), int), 100, 1, r"\(50, 2, 2\)"),
        (lambda v, n, s: np.zeros((n, 0), int), 100, 1, r"\(50, 0\)"),
        (lambda v, n, s: np.zeros((n, 1 + int(v > 0.5)), int), 100, 1, "1 and 2 numbers"),
    ],
)
def test_refusals(run: Callable, runs: int, tests: int, found: str) -> None:
    target = AuditTarget("t", run, [("", 0.4, 0.6)], 1.0)
    with pytest.raises(HedgerowError, match=found) as caught:
        audit(target, runs, seeded(), tests=tests)
    assert caught.value.code is Code.BAD_AUDIT


def test_a_target_without_a_pair_is_refused() -> None:
    with pytest.raises(HedgerowError, match="without a pair") as caught:
        audit(AuditTarget("t", bernoulli, [], 1.0), 100)
    assert caught.value.code is Code.BAD_AUDIT
