"""The book of a ledger: charges, budgets, reservations, copies."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from hedgerow.errors import Code, PrivacyError
from hedgerow.privacy.accounting import Guarantee
from hedgerow.privacy.entries import Reservation
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.scopes import EACH, ROOT, part, step
from tests.privacy.release_strategies import NODES, Provenance, gaussian, ledger_of, release


def test_charges_are_kept_in_order() -> None:
    ledger = ledger_of([release(1.0), release(2.0)])
    assert [r.epsilon for r in ledger.releases] == [1.0, 2.0]
    assert ledger.total() == Guarantee(3.0, 0.0)
    assert Ledger().total() == Guarantee(0.0, 0.0)


@pytest.mark.parametrize("event", [None, 1.0, {"epsilon": 1.0}, "counts"])
def test_an_unknown_event_raises(event: object) -> None:
    with pytest.raises(PrivacyError, match="H204"):
        Ledger().charge(event)  # type: ignore[arg-type]


def test_a_domain_read_from_the_data_allows_no_finite_epsilon() -> None:
    ledger = Ledger(Provenance(is_public=False))
    for charge in (ledger.charge, ledger.reserve):
        with pytest.raises(PrivacyError, match="H202") as error:
            charge(release(1.0))
        assert error.value.code is Code.DOMAIN_READ_FROM_DATA
    assert ledger.entries == ()
    ledger.charge(release(math.inf))
    assert ledger.total().epsilon == math.inf
    Ledger(Provenance(is_public=True)).charge(release(1.0))


def test_the_budget_holds_for_every_audience_and_a_refusal_changes_nothing() -> None:
    ledger = ledger_of([release(0.6), release(0.4, audience="server 0")], budget=1.0)
    before = ledger.to_json()
    for refused in (
        release(0.1),  # would bring server 0 to 1.1
        release(0.1, audience="server 0"),
        release(0.5, audience="owner 1"),
        release(math.inf),
        release(0.0, delta=1e-6),
    ):
        with pytest.raises(PrivacyError, match="H207"):
            ledger.charge(refused)
        with pytest.raises(PrivacyError, match="H207"):
            ledger.reserve(refused)
        assert ledger.to_json() == before
    ledger.charge(release(0.4, audience="owner 1"))
    ledger.charge(release(0.0))


def test_several_charges_are_made_together_or_not_at_all() -> None:
    ledger = Ledger(budget=1.0)
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(release(0.6), release(0.6))
    with pytest.raises(PrivacyError, match="H204"):
        ledger.charge(release(0.6), None)  # type: ignore[arg-type]
    assert ledger.entries == ()
    ledger.charge(release(0.6), release(0.4))
    ledger.charge()
    assert ledger.total().epsilon == 1.0


def test_a_reservation_is_the_charge_and_what_happens_in_it_is_information() -> None:
    growth = ROOT / step("growth")
    ledger = Ledger()
    held = ledger.reserve(release(0.5, growth, times=8, reason="splits"))
    for i in range(3):
        ledger.realise(held, release(0.5, growth / step(f"split {i}")))
    assert ledger.total().epsilon == 4
    assert ledger.realised_total().epsilon == 1.5
    assert [entry.kind for entry in ledger.entries] == ["reservation", *["realised"] * 3]
    assert ledger.charged("splits") == 8
    before = ledger.to_json()
    for code, wrong in (
        ("H207", release(2.6, growth)),
        ("H207", release(0.6, growth)),
        ("H207", release(0.1, growth, delta=1e-9)),
        ("H205", release(0.1, ROOT)),
        ("H205", release(0.1, growth, audience="server 0")),
    ):
        with pytest.raises(PrivacyError, match=code):
            ledger.realise(held, wrong)
    for stranger in (Reservation(7, held.release), Reservation(1, held.release)):
        with pytest.raises(PrivacyError, match="H205"):
            ledger.realise(stranger, release(0.1, growth))
    assert ledger.to_json() == before
    ledger.realise(held, release(0.5, growth, times=5))
    with pytest.raises(PrivacyError, match="H207"):
        ledger.realise(held, release(0.0001, growth))


def test_a_reservation_in_each_part_covers_every_part() -> None:
    ledger = Ledger()
    held = ledger.reserve(release(1.0, ROOT / part(NODES, EACH)))
    ledger.realise(held, release(0.9, ROOT / part(NODES, "x")))
    ledger.realise(held, release(0.8, ROOT / part(NODES, "y")))
    with pytest.raises(PrivacyError, match="H207"):
        ledger.realise(held, release(0.2, ROOT / part(NODES, EACH)))


def test_charged_counts_what_reaches_an_audience() -> None:
    ledger = ledger_of([release(audience="analyst ana", times=2), release(audience="analyst")])
    assert ledger.charged("counts") == 3
    assert ledger.charged("counts", "analyst ana") == 3
    assert ledger.charged("counts", "analyst ben") == 1
    assert ledger.charged("counts", "analyst") == 1
    assert ledger.charged("other") == 0


def test_a_domain_read_from_the_data_allows_no_rho() -> None:
    with pytest.raises(PrivacyError, match="H202"):
        Ledger(Provenance(is_public=False)).charge(gaussian(0.1))


@pytest.mark.parametrize("delta", [-1e-9, 1, math.nan, "1e-6"])
def test_odd_deltas_are_refused(delta: object) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        Ledger(delta=delta)  # type: ignore[arg-type]


def test_charging_from_many_threads_loses_nothing() -> None:
    ledger = Ledger(budget=100.0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ledger.charge, [release(0.25) for _ in range(200)]))
    assert ledger.total().epsilon == 50


@pytest.mark.parametrize("budget", [None, 2.0])
def test_estimators_that_hold_a_ledger_can_be_copied(budget: float | None) -> None:
    ledger = ledger_of([release(1.0)], budget=budget)
    for again in (copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        again.charge(release(1.0))
        assert again.total().epsilon == 2
    assert ledger.total().epsilon == 1
    ledger.charge(release(1.0))
