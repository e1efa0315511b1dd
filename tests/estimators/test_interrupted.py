"""Whatever ends a fit: what was charged stands in ``privacy_``, beside no earlier model."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from hedgerow import Account, Ledger, VerticalID3Classifier
from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators import accounted
from hedgerow.privacy import NoiseSource
from tests.estimators.private_models import PRIVATE, small_model, small_rows


class Calls:
    """Counts calls of functions of the package from a stage of a fit on, and interrupts one."""

    def __init__(self, stage: str = "paying", after: int | None = None) -> None:
        self.stage, self.after, self.count = stage, after, -1

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        ours = frame.f_globals.get("__name__", "").startswith("hedgerow")
        owner = type(frame.f_locals.get("self"))
        paying = (frame.f_code.co_name, owner) == ("charge", Account)
        if event == "return" and paying and self.stage == "drawing":
            self.count = max(self.count, 0)
        # What is raised where a generator is closed, nobody gets to see.
        if event != "call" or not ours or frame.f_code.co_name.startswith("<"):
            return
        self.count += self.count >= 0 or self.stage == {
            ("_append", accounted.FitLedger): "recording",
            ("charge", Account): "paying",
        }.get((frame.f_code.co_name, owner), "reading")
        if self.count == self.after:
            raise KeyboardInterrupt

    @contextmanager
    def watching(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.filterwarnings("ignore:random_state makes:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("kind", PRIVATE)
def test_an_interrupt_anywhere_leaves_the_ledger_of_what_was_charged(kind: type) -> None:
    rows, target = small_rows(kind)
    account = Account(Ledger())
    # Sites draw for themselves, by seeds that follow from this one.
    seeded = {"random_state": 1} if kind is VerticalID3Classifier else {}
    model = small_model(kind, 0.5, account=account, **seeded).fit(rows, target)
    earlier, held = model.privacy_, vars(model).copy()
    for calls in (Calls("drawing"), Calls("drawing")):
        # A tree that grows by its noise takes the same steps each time, but for what is kept.
        model.set_params(epsilon=0.9)._noise = NoiseSource.insecure_seeded(1)
        with calls.watching():
            model.fit(rows, target)
    assert calls.count > 0
    drawing = [("drawing", int(share * calls.count)) for share in (0.4, 0.9)]
    charges = [(release.reason, release.times) for release in earlier.releases]
    states = []
    for stage, after in (("reading", 20), ("recording", 0), ("paying", 0), *drawing):
        vars(model).update(held)
        model.set_params(epsilon=0.9)._noise = NoiseSource.insecure_seeded(1)
        fits = len(account.costs())
        with pytest.raises(KeyboardInterrupt) as caught, Calls(stage, after).watching():
            model.fit(rows, target)
        paid = len(account.costs()) > fits
        if model.privacy_ is earlier:
            assert not paid
            assert all(vars(model)[name] is held[name] for name in held if name != "epsilon")
            states.append("as before")
            continue
        assert [(r.reason, r.times) for r in model.privacy_.releases] == charges
        assert model.privacy_.releases != earlier.releases
        assert [name for name in vars(model) if name.endswith("_")] == ["privacy_"]
        predict = [lambda fitted: fitted.predict(rows)] if hasattr(model, "predict") else []
        for ask in (check_is_fitted, *predict):
            with pytest.raises(NotFittedError):
                ask(model)
        assert "stays charged: see privacy_" in caught.value.__notes__[0]
        states.append("paid" if paid else "recorded")
    assert states == ["as before", "as before", "recorded", "paid", "paid"]


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("kind", PRIVATE)
def test_a_first_fit_that_breaks_off_has_a_ledger_and_no_model(kind: type) -> None:
    rows, target = small_rows(kind)
    model = small_model(kind, 0.7)

    def fails(ledger: Ledger) -> None:
        raise OSError("disk full")

    model._charged = fails
    with pytest.raises(OSError, match="disk full"):
        model.fit(rows, target)
    assert model.privacy_.releases
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("kind", PRIVATE)
def test_what_an_account_refuses_at_the_last_moment_costs_nothing(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, target = small_rows(kind)
    account = Account(Ledger())
    model = small_model(kind, account=account).fit(rows, target)
    earlier = vars(model).copy()

    def refuse(releases: object, marks: object = (), what: str = "") -> str:
        raise Code.BUDGET_EXCEEDED.error(found="another process was faster")

    monkeypatch.setattr(account, "charge", refuse)
    with pytest.raises(HedgerowError, match="faster"):
        model.fit(rows, target)
    assert vars(model) == earlier
    assert len(account.costs()) == 1
