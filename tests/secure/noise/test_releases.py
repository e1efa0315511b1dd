import math

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    Leakage,
    Ledger,
    NoiseSource,
    NoisyMax,
    Opening,
    Partition,
    Scope,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.releases import (
    Charge,
    add_geometric_noise,
    cost_add_geometric_noise,
    cost_noisy_max,
    noisy_max,
    open_noisy_max,
)
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share

NODES = Partition("nodes", By.ATTRIBUTES)


STEP = ROOT / step("release")


def charge(ledger: Ledger, scope: Scope = STEP, reason: str = "test") -> Charge:
    return Charge(ledger, scope, "analyst", reason)


def seeded(*openings: Opening, seed: int = 1) -> ClearEngine:
    return ClearEngine(Leakage(openings), NoiseSource.insecure_seeded(seed))


def test_noise_is_added_and_charged_with_its_delta(engine: Engine) -> None:
    ledger, mechanism = Ledger(), TwoSidedGeometric(2.0, 3)
    values = np.arange(-30, 30).reshape(3, 20)
    noisy = add_geometric_noise(share(engine, values, Z32), mechanism, charge(ledger))
    error = Z32.signed(reveal(noisy)) - values
    assert 0 < np.abs(error).max() < 3 * 60
    (release,) = ledger.releases
    assert release.mechanism == "two-sided geometric"
    assert (release.epsilon, release.sensitivity, release.variables) == (2.0, 3, 120)
    assert 0 < release.delta == precision(mechanism, 60).delta < 2**-60
    assert ledger.not_private[0].reason == "seeded noise"


def test_a_release_in_each_part_counts_the_values_of_one() -> None:
    ledger, mechanism, e = Ledger(), TwoSidedGeometric(1.0), seeded()
    paid = charge(ledger, ROOT / part(NODES, EACH))
    add_geometric_noise(share(e, np.zeros((8, 5), dtype=int), Z32), mechanism, paid)
    assert ledger.releases[0].variables == 10
    assert ledger.releases[0].delta == precision(mechanism, 5).delta


@pytest.mark.parametrize(("scope", "times"), [(ROOT, 8), (ROOT / part(NODES, EACH), 4)])
def test_choices_add_up_within_a_part(scope, times: int) -> None:
    ledger, e = Ledger(), seeded()
    scores = share(e, np.zeros((2, 4, 3), dtype=int), Z32)
    hot = reveal(noisy_max(scores, NoisyMax(0.5), charge(ledger, scope), bound=0))
    assert (hot.sum(axis=-1) == 1).all()
    assert ledger.releases[0].times == times
    assert ledger.formal_total("analyst").epsilon == 0.5 * times


def test_nothing_is_drawn_when_the_budget_refuses() -> None:
    e = seeded()
    before = e.source.words(1)
    again = seeded()
    with pytest.raises(HedgerowError) as caught:
        add_geometric_noise(
            share(again, np.zeros(3, dtype=int), Z32),
            TwoSidedGeometric(1.0),
            charge(Ledger(budget=0.5)),
        )
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert again.source.words(1) == before


def test_keys_of_the_system_leave_the_ledger_unmarked() -> None:
    ledger = Ledger()
    e = ClearEngine(Leakage([]))
    add_geometric_noise(e.public(np.zeros(3, int), Z32), TwoSidedGeometric(1.0), charge(ledger))
    assert ledger.not_private == ()


@pytest.mark.parametrize("monotone", [False, True])
def test_law_of_noisy_max(monotone: bool, chi_square) -> None:
    mechanism = NoisyMax(1.5, 2, monotone)
    scores = np.array([3, 5, 5, -2, 4])
    n = 200_000
    e = seeded(seed=7)
    table = e.public(np.broadcast_to(scores, (n, 5)), Z32)
    paid = charge(Ledger(), ROOT / part(NODES, EACH))
    counts = reveal(noisy_max(table, mechanism, paid, bound=5)).sum(axis=0)
    assert chi_square(counts, mechanism.law(scores)) > 1e-4


def test_candidates_that_are_not_valid_never_win(engine: Engine) -> None:
    scores = share(engine, np.broadcast_to([90, -90, 0, 90], (2000, 4)), Z32)
    mask = np.array([False, True, True, False])
    each = ROOT / part(NODES, EACH)
    public = noisy_max(scores, NoisyMax(0.1), charge(Ledger(), each), bound=90, valid=mask)
    hidden = noisy_max(
        scores,
        NoisyMax(0.1),
        charge(Ledger(), each),
        bound=90,
        valid=share(engine, mask.astype(int), Z32),
    )
    for hot in (public, hidden):
        counts = reveal(hot).sum(axis=0)
        assert counts[[0, 3]].sum() == 0
        assert (counts[[1, 2]] > 0).all()


def test_opened_index_is_declared_and_paid_for() -> None:
    ledger = Ledger()
    opening = Opening("split", "analyst", ("nodes",), release="choose a split")
    e = ClearEngine(Leakage([opening], ledger=ledger, nodes=2), NoiseSource.insecure_seeded(3))
    scores = e.public([[0, 500, 0], [0, 0, 500]], Z32)
    paid = charge(ledger, ROOT / part(NODES, EACH), "choose a split")
    index = open_noisy_max(scores, NoisyMax(1.0), paid, bound=500, name="split")
    assert index is not None
    assert index.tolist() == [1, 2]
    assert e.leakage.what_was_learned("analyst")[0]["times"] == 1
    assert ledger.charged("choose a split", "analyst") == 1


def test_scores_that_do_not_fit_are_refused_before_a_charge() -> None:
    ledger, e = Ledger(), seeded()
    scores = share(e, np.zeros(3, dtype=int), Z16)
    with pytest.raises(HedgerowError) as caught:
        noisy_max(scores, NoisyMax(1.0), charge(ledger), bound=2**14)
    assert caught.value.code is Code.BAD_MECHANISM_INPUT
    assert ledger.releases == ()


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
@pytest.mark.parametrize("shape", [(5,), (4, 7)])
def test_costs_are_as_declared(engine: Engine, ring: Ring, shape: tuple[int, ...]) -> None:
    x = share(engine, np.ones(shape, dtype=int), ring)
    valid = share(engine, np.ones(shape, dtype=int), ring)
    paid, two_sided, best = charge(Ledger()), TwoSidedGeometric(1.0), NoisyMax(1.0)
    assert metered(
        engine, lambda: add_geometric_noise(x, two_sided, paid)
    ) == cost_add_geometric_noise(engine, shape, two_sided, paid, ring)
    for mask in (None, valid):
        spent = metered(engine, lambda m=mask: noisy_max(x, best, paid, bound=9, valid=m))
        assert spent == cost_noisy_max(
            engine, shape, best, bound=9, ring=ring, secret_valid=mask is not None
        )


def test_ledger_prints_the_delta() -> None:
    ledger, e = Ledger(), seeded()
    add_geometric_noise(e.public(np.zeros(100, int), Z32), TwoSidedGeometric(1.0), charge(ledger))
    delta = ledger.releases[0].delta
    assert math.log2(delta) < -60
    assert f"{delta:.5e}" in str(ledger)
