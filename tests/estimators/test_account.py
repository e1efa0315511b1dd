"""Accounts: fits add up, beyond the budget nothing is read, copies are the same account."""

import contextlib
import copy
import multiprocessing
import pickle
import re
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hedgerow import (
    Account,
    DPBoostingClassifier,
    DPClassifier,
    DPTreeClassifier,
    Ledger,
    MedianForestClassifier,
)
from hedgerow.cli.printing import advice
from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators import account as module
from hedgerow.estimators.account import account_of
from hedgerow.privacy import ROOT, By, Partition, Release, part, step
from tests.estimators.one_table import DOMAIN, rows


class Untouchable:
    """Rows that must not be read."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} of the rows was read")


def release(label: str = "0", epsilon: float = 1.0) -> Release:
    scope = ROOT / part(Partition("trees", By.COIN), label)
    return Release("two-sided geometric", epsilon, 0.0, 1.0, scope, "public", "counts")


def fails_with(code: Code, call, *arguments) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        call(*arguments)
    assert caught.value.code is code
    return caught.value


@pytest.mark.parametrize("in_file", [True, False])
def test_fits_add_up_until_the_budget_is_spent(tmp_path: Path, in_file: bool) -> None:
    budget = (2.5, 1e-9)
    path = tmp_path / "account.json"
    account = Account.new(path, *budget) if in_file else Account(Ledger(budget=budget))
    model = DPTreeClassifier(1.0, DOMAIN, account=account, max_depth=2)
    for n in (1, 2):
        model.fit(*rows())
        assert model.privacy_.total().epsilon == pytest.approx(1.0)
        assert account.spent().epsilon == pytest.approx(n)
    error = fails_with(Code.BUDGET_EXCEEDED, model.fit, Untouchable(), Untouchable())
    assert "epsilon 2" in error.found
    names = [cost.fit for cost in account.costs()]
    # With the model, and when it was.
    known = rf"DPTreeClassifier, {datetime.now(UTC).year}-\d\d-\d\d \d\d:\d\d UTC"
    for i, name in enumerate(names, 1):
        assert re.fullmatch(rf"fit {i}: {known}", name)
    assert len(names) == 2
    model.set_params(epsilon=0.5).fit(*rows())
    assert account.spent().epsilon == pytest.approx(2.5)


def test_parts_of_two_fits_are_no_siblings() -> None:
    account = Account(Ledger())
    account.charge([release("0")])
    account.charge([release("1")])
    # A record may be in part 0 of one fit and in part 1 of the other.
    assert account.ledger.total().epsilon == 2.0
    assert account.spent().epsilon == 2.0


def test_boosting_is_counted_at_the_delta_of_a_fit(tmp_path: Path) -> None:
    account = Account.new(tmp_path / "account.json", 2.2, 1e-5, fit_delta=1e-7)
    model = DPBoostingClassifier(1.0, DOMAIN, delta=1e-7, n_estimators=3, account=account)
    model.fit(*rows())
    MedianForestClassifier(0.5, DOMAIN, n_estimators=1, account=account).fit(*rows())
    spent = account.spent()
    assert spent.epsilon == pytest.approx(1.5, abs=0.01)
    assert spent.delta == pytest.approx(1e-7, rel=1e-3)
    # At a larger delta of its own the same epsilon has less noise, and costs more here.
    model.set_params(epsilon=0.7, delta=1e-4)
    error = fails_with(Code.BUDGET_EXCEEDED, model.fit, Untouchable(), Untouchable())
    assert "counts such a fit at delta 1e-07: pass delta=1e-07" in error.fix
    assert "such a fit at delta 1e-07: pass --delta 1e-07" in advice(error, "fit").fix
    assert "--fit-delta" in error.fix
    model.set_params(epsilon=0.65, delta=1e-7).fit(*rows())
    # Without a delta there is nothing that boosting could be paid with.
    pure = Account.new(tmp_path / "pure.json", 100.0)
    fails_with(
        Code.BUDGET_EXCEEDED, model.set_params(account=pure).fit, Untouchable(), Untouchable()
    )


SEEDED = {"domain": DOMAIN, "random_state": 0}
DRAFTED = {"domain": None, "insecure_domain_from_data": True}


@pytest.mark.parametrize(
    "kind", [DPTreeClassifier, MedianForestClassifier, DPBoostingClassifier, DPClassifier]
)
@pytest.mark.parametrize("how", [SEEDED, DRAFTED], ids=["seeded", "drafted"])
def test_a_budget_pays_for_no_fit_that_promises_nothing(tmp_path: Path, kind, how: dict) -> None:
    account = Account.new(tmp_path / "account.json", 5.0, 1e-5)
    model = kind(0.5, account=account, **how)
    error = fails_with(Code.BUDGET_EXCEEDED, model.fit, Untouchable(), Untouchable())
    assert "this fit is not private" in error.found
    assert "leave out random_state" in error.fix
    assert "public domain" in error.fix
    assert account.costs() == []
    assert account.spent().private


def test_after_a_fit_that_promises_nothing_no_budget_holds() -> None:
    account = Account(Ledger())
    seeded = DPTreeClassifier(1.0, DOMAIN, max_depth=1, random_state=0, account=account)
    with pytest.warns(UserWarning, match="not private"):
        seeded.fit(*rows())
    assert not account.spent().private
    assert "seeded" in account.spent().why
    # Such as a file that was written before budgets refused it.
    ledger = Ledger(budget=5.0)
    ledger.mark_not_private("the noise was seeded")
    model = DPTreeClassifier(1.0, DOMAIN, account=Account(ledger))
    error = fails_with(Code.BUDGET_EXCEEDED, model.fit, Untouchable(), Untouchable())
    assert "an earlier fit" in error.found
    fails_with(Code.BUDGET_EXCEEDED, Account(ledger).charge, [release()])
    assert ledger.releases == ()


def test_a_link_to_an_account_is_the_account(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    Account.new(real, 1.0)
    link.symlink_to(real)
    Account(link).charge([release()])
    assert link.is_symlink()
    assert Account(real).spent().epsilon == 1.0
    fails_with(Code.BUDGET_EXCEEDED, Account(real).charge, [release()])
    fails_with(Code.BUDGET_EXCEEDED, Account(link).charge, [release()])


def test_a_file_with_two_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "account.json", tmp_path / "other.json"
    account = Account.new(path, 1.0)
    other.hardlink_to(path)
    for name in (path, other):
        error = fails_with(Code.BAD_LEDGER_FILE, Account(name).charge, [release()])
        assert "2 hard links" in error.found
    # A file that is just being made has two names, too, but not for long.
    monkeypatch.setattr(module.time, "sleep", lambda seconds: other.unlink(missing_ok=True))
    account.charge([release()])
    assert account.spent().epsilon == 1.0


def test_of_two_who_make_a_file_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, once = tmp_path / "account.json", module.write_once

    def late(where: Path, data: bytes) -> bool:
        monkeypatch.setattr(module, "write_once", once)
        Account.new(path, 9.0)
        return once(where, data)

    monkeypatch.setattr(module, "write_once", late)
    fails_with(Code.FILE_EXISTS, Account.new, path, 1.0)
    assert Account(path).ledger.budget.epsilon == 9.0
    dangling = tmp_path / "dangling.json"
    dangling.symlink_to(tmp_path / "nowhere.json")
    fails_with(Code.FILE_EXISTS, Account.new, dangling, 1.0)


def test_a_name_is_never_given_twice() -> None:
    ledger = Ledger(budget=1.5)
    scope = ROOT / step("fit 2") / part(Partition("trees", By.COIN), "0")
    ledger.charge(Release("two-sided geometric", 1.0, 0.0, 1.0, scope, "public", "counts"))
    # As parts of one fit, both would cost 1 together.
    fails_with(Code.BUDGET_EXCEEDED, Account(ledger).charge, [release("1")])
    assert Account(ledger).charge([release("1", 0.5)]) == "fit 3"
    assert Account(ledger).spent().epsilon == 1.5


def test_two_accounts_in_one_ledger_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, names = Ledger(), []
    both, charge = threading.Barrier(2), ledger.charge

    def slow(*releases: Release) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # if both come this far, both have chosen their names
        charge(*releases)

    monkeypatch.setattr(ledger, "charge", slow)
    threads = [
        threading.Thread(target=lambda i=i: names.append(Account(ledger).charge([release(str(i))])))
        for i in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == ["fit 1", "fit 2"]
    assert Account(ledger).spent().epsilon == 2.0


def test_an_account_in_memory_refuses_in_a_forked_process() -> None:
    account = Account(Ledger(budget=1.0))
    fork = multiprocessing.get_context("fork")
    found = fork.SimpleQueue()

    def child() -> None:
        for call in (account.charge, account.check, lambda releases: account.spent()):
            try:
                call([release()])
                found.put("allowed")
            except HedgerowError as error:
                found.put(error.found)

    worker = fork.Process(target=child)
    worker.start()
    worker.join()
    told = "an account in the memory of another process"
    assert [found.get() for _ in range(3)] == [told] * 3
    account.charge([release()])
    assert account.spent().epsilon == 1.0


def test_rows_that_are_refused_cost_nothing(tmp_path: Path) -> None:
    account = Account.new(tmp_path / "account.json", 5.0)
    small = DOMAIN.model_copy(update={"capacity": 10})
    model = DPTreeClassifier(1.0, small, account=account, bad_rows="error")
    fails_with(Code.CAPACITY_EXCEEDED, model.fit, *rows())
    X, y = rows()
    y[0] = "perhaps"
    fails_with(Code.UNKNOWN_CLASS, model.set_params(domain=DOMAIN).fit, X, y)
    assert account.costs() == []
    # Where nothing is refused, everything is charged.
    model.set_params(bad_rows="auto").fit(X, y)
    assert len(account.costs()) == 1


def test_copies_are_the_same_account_and_pickles_of_memory_refuse(tmp_path: Path) -> None:
    inside = Account(Ledger(budget=3.0))
    assert copy.deepcopy(inside) is copy.copy(inside) is inside
    elsewhere = pickle.loads(pickle.dumps(inside))
    for call in (elsewhere.check, elsewhere.charge):
        error = fails_with(Code.BAD_PARAMETER, call, [release()])
        assert "Account.new" in error.fix
    on_disk = Account.new(tmp_path / "account.json", 3.0)
    pickle.loads(pickle.dumps(on_disk)).charge([release()])
    assert on_disk.spent().epsilon == 1.0
    model = DPTreeClassifier(1.0, DOMAIN, max_depth=1, account=inside).fit(*rows())
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(rows()[0]) == model.predict(rows()[0])).all()
    assert again.privacy_.total() == model.privacy_.total()


def test_a_file_is_made_once_and_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    Account.new(path, 1.0)
    fails_with(Code.FILE_EXISTS, Account.new, path, 2.0)
    fails_with(Code.STATE_NOT_WRITTEN, Account.new, tmp_path / "nowhere" / "a.json", 2.0)
    fails_with(Code.BAD_PARAMETER, Account.new, tmp_path / "b.json", 1.0, 1e-6, 1e-5)
    fails_with(Code.BAD_LEDGER_FILE, Account(tmp_path / "other.json").spent)
    path.write_text("{}")
    fails_with(Code.BAD_LEDGER_FILE, Account(path).charge, [release()])
    assert path.read_text() == "{}"
    assert [p.name for p in tmp_path.iterdir()] == ["account.json"]


def test_what_is_no_account_is_refused() -> None:
    assert account_of(None) is None
    error = fails_with(Code.BAD_PARAMETER, account_of, Ledger())
    assert "Account(ledger)" in error.fix
    model = DPTreeClassifier(1.0, DOMAIN, account=3)
    fails_with(Code.BAD_PARAMETER, model.fit, Untouchable(), Untouchable())


def _charge_often(path: str) -> None:
    for _ in range(10):
        Account(path).charge([release()])


def test_processes_never_lose_a_charge(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    account = Account.new(path, 100.0)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=_charge_often, args=(str(path),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert account.spent().epsilon == 30.0
    assert len(account.costs()) == 30
