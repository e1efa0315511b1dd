"""Accounts: every charge counts once, for ever, and none goes beyond the policy."""

import json
import math
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Lifetime, Policy
from hedgerow.parties.store import accounts as module
from hedgerow.parties.store.accounts import Accounts, Balance, balances_in, worst
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.journal import locked_journal
from hedgerow.parties.store.trail import verify
from hedgerow.privacy.accounting import Guarantee
from tests.parties.store.old_journals import write_journal
from tests.parties.towns import Town, set_line
from tests.parties.wire.parties_calls import refuses

POLICY = Policy(
    largest_epsilon_per_job=1.0,
    allowed_protocols=("hidden-tree",),
    allowed_analysts=("zoe",),
    queries_per_model=10,
    queries_per_analyst=10,
    populations={"patients": 3.0, "staff": 1.0},
)
EXACT = POLICY.model_copy(update={"allow_exact": True, "populations": {"patients": math.inf}})


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


def test_charges_add_up_and_are_refused_at_the_limit(state) -> None:
    accounts = Accounts(state, POLICY)
    assert accounts.spent("patients") == module.AccountTotal(0.0, 0.0, ())
    assert accounts.populations() == []
    for i in range(3):
        assert accounts.charge("patients", f"job:{i}", 0.9, 1e-9, what=f"run {i}")
    spent = accounts.spent("patients")
    assert spent.epsilon == pytest.approx(2.7)
    assert spent.delta == pytest.approx(3e-9)
    assert [(c.key, c.what) for c in spent.charges] == [(f"job:{i}", f"run {i}") for i in range(3)]
    assert abs(spent.charges[0].time - time.time()) < 60
    error = refuses(Code.POLICY_REFUSES, lambda: accounts.charge("patients", "job:3", 0.4))
    assert "2.7 spent" in error.found
    assert "patients.epsilon = 3" in error.expected
    refuses(Code.POLICY_REFUSES, lambda: accounts.check("patients", "job:3", 0.4))
    # What was refused has cost nothing, and other people have accounts of their own.
    assert accounts.charge("patients", "job:4", 0.3)
    assert accounts.charge("staff", "job:4", 1.0)
    assert accounts.spent("patients").epsilon == pytest.approx(3.0)
    assert accounts.populations() == ["patients", "staff"]
    refuses(Code.POLICY_REFUSES, lambda: accounts.charge("strangers", "job:1", 0.1))


def test_deltas_add_up_and_are_refused_at_the_limit(state) -> None:
    """150 charges of a hundredth each come to a delta of 1.5; two are all that there is."""
    lifetime = {"patients": {"epsilon": 3.0, "delta": 0.02}}
    accounts = Accounts(state, POLICY.model_copy(update={"populations": lifetime}))
    for i in range(2):
        assert accounts.charge("patients", f"job:{i}", 0.001, 0.01)
    for i in range(2, 150):
        error = refuses(
            Code.POLICY_REFUSES,
            lambda i=i: accounts.charge("patients", f"job:{i}", 0.001, 0.01),
        )
        assert "patients.delta = 0.02" in error.expected
    assert accounts.spent("patients").delta == pytest.approx(0.02)
    refuses(Code.POLICY_REFUSES, lambda: accounts.check("patients", "job:x", 0.001, 0.01))
    assert accounts.charge("patients", "job:y", 0.001, 0.0)


def test_once_per_key_also_after_a_restart(state) -> None:
    assert Accounts(state, POLICY).charge("patients", "job:a", 2.0, 1e-12)
    again = Accounts(state, POLICY)
    assert not again.charge("patients", "job:a", 2.0, 1e-12)
    assert not again.check("patients", "job:a", 2.0, 1e-12)
    assert again.spent("patients").epsilon == 2.0
    # A charge that was made is recognised, even if it would not be allowed any more.
    stricter = POLICY.model_copy(update={"populations": {"patients": 0.5}})
    assert not Accounts(state, stricter).charge("patients", "job:a", 2.0, 1e-12)
    refuses(Code.POLICY_REFUSES, lambda: Accounts(state, stricter).charge("patients", "b", 0.1))
    for epsilon, delta in ((1.0, 1e-12), (2.0, 0.0), (math.inf, 1e-12)):
        refuses(
            Code.ACCOUNT_CONFLICT,
            lambda e=epsilon, d=delta: again.charge("patients", "job:a", e, d),
        )


def test_what_has_no_finite_epsilon(state) -> None:
    refuses(Code.POLICY_REFUSES, lambda: Accounts(state, POLICY).charge("patients", "x", math.inf))
    accounts = Accounts(state, EXACT)
    assert accounts.charge("patients", "job:exact", math.inf)
    assert not Accounts(state, EXACT).charge("patients", "job:exact", math.inf)
    assert accounts.spent("patients").epsilon == math.inf
    assert accounts.charge("patients", "job:more", 1.0)
    # Nothing finite is left of it, whatever the policy says later.
    refuses(Code.POLICY_REFUSES, lambda: Accounts(state, POLICY).charge("patients", "later", 0.0))


@pytest.mark.parametrize(
    ("key", "epsilon", "delta"),
    [
        ("", 1.0, 0.0),
        ("a b", 1.0, 0.0),
        ("a\n", 1.0, 0.0),
        ("x" * 201, 1.0, 0.0),
        (None, 1.0, 0.0),
        ("a", -1.0, 0.0),
        ("a", math.nan, 0.0),
        ("a", 1.0, -1.0),
        ("a", 1.0, 1.5),
        ("a", 1.0, math.nan),
    ],
)
def test_figures_that_are_none(state, key, epsilon: float, delta: float) -> None:
    accounts = Accounts(state, POLICY)
    for action in (accounts.charge, accounts.check):
        refuses(
            Code.BAD_PARAMETER,
            lambda action=action: action("patients", key, epsilon, delta),
        )
    assert accounts.populations() == []


def test_names_are_no_paths(state) -> None:
    accounts = Accounts(state, POLICY)
    for name in ("../x", "", "A", "a/b", ".."):
        refuses(Code.BAD_NAME, lambda name=name: accounts.charge(name, "k", 1.0))
        refuses(Code.BAD_NAME, lambda name=name: accounts.spent(name))
        refuses(Code.BAD_NAME, lambda name=name: accounts.check(name, "k", 1.0))


OLD = (
    ("a" * 64, 1.0, 0.0),
    ("job:b", "inf", 1e-9),
    ("c", 0.25, 0.0),
)


def write_old(root: Path, population: str = "patients", lines: Sequence[Any] = OLD) -> Path:
    """Write an account as earlier versions did."""
    folder = root / "accounts"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{population}.jsonl"
    charges = [
        {"key": key, "epsilon": epsilon, "delta": delta, "what": f"run {i}", "time": 1.5 + i}
        for i, (key, epsilon, delta) in enumerate(lines)
    ]
    write_journal(path, {"kind": "account", "population": population}, *charges)
    return path


def test_accounts_of_earlier_versions_are_taken_over_once(state) -> None:
    content = write_old(state.root).read_bytes()
    write_old(state.root, "staff", OLD[2:])
    accounts = Accounts(state, POLICY)
    charges = [
        module.AccountCharge("job:" + "a" * 64, 1.0, 0.0, "run 0", 1.5),
        module.AccountCharge("job:b", math.inf, 1e-9, "run 1", 2.5),
        module.AccountCharge("c", 0.25, 0.0, "run 2", 3.5),
    ]
    assert list(accounts.spent("patients").charges) == charges
    assert accounts.spent("staff").epsilon == 0.25
    assert accounts.populations() == ["patients", "staff"]
    assert not (state.root / "accounts").exists()
    aside = state.root / "accounts-imported"
    assert (aside / "patients.jsonl").read_bytes() == content
    with open_store(state).snapshot() as made:
        last = verify(made.trail(), made.charges())
    assert last is not None
    assert last.n == 4
    # Recognised by its key, as it always was.
    assert not accounts.charge("patients", "a" * 64, 1.0)
    # The folder again, as after a crash before it was renamed, and with one more charge.
    aside.rename(state.root / "accounts")
    write_old(state.root, "patients", [("d", 0.5, 0.0)])
    again = Accounts(state, POLICY)
    assert [charge.key for charge in again.spent("patients").charges] == [
        *(charge.key for charge in charges),
        "d",
    ]
    write_old(state.root, "staff", [("e", 0.5, 0.0)])
    assert Accounts(state, POLICY).spent("staff").epsilon == 0.75
    names = {path.name for path in state.root.glob("accounts*")}
    assert names == {"accounts-imported", "accounts-imported-2"}


def test_accounts_of_earlier_versions_that_cannot_be_relied_on(state, tmp_path) -> None:
    path = write_old(state.root)
    good = path.read_bytes()
    lines = good.splitlines(keepends=True)

    def refused(code: Code = Code.JOURNAL_DAMAGED) -> None:
        refuses(code, lambda: Accounts(state, POLICY))
        with open_store(state).snapshot() as made:
            assert made.charges() == []
        assert path.exists()

    for changed in (
        good.replace(b'"epsilon":1.0', b'"epsilon":0.1', 1),
        lines[0] + lines[2],
        lines[0] + lines[1] + lines[1],
        b"",
    ):
        path.write_bytes(changed)
        refused()
    # The account of others in its place.
    path.write_bytes(good.replace(b"patients", b"visitors"))
    refused()
    # Genuine lines that are no charges, and a key twice.
    about = {"kind": "account", "population": "patients"}
    twice = {"key": "a", "epsilon": 1, "delta": 0, "what": "", "time": 0}
    for entries in ([{"key": "a"}], [twice | {"epsilon": -1}], [twice, twice]):
        path.unlink()
        write_journal(path, about, *entries)
        refused()
    path.write_bytes(good)
    with locked_journal(path, about):
        refused(Code.JOURNAL_IN_USE)
    elsewhere = tmp_path / "elsewhere.jsonl"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    refused(Code.UNSAFE_FOLDER)
    # A line that a crash has cut off was never acknowledged.
    path.unlink()
    path.write_bytes(good + b'{"entry":{"key":"job')
    accounts = Accounts(state, POLICY)
    assert len(accounts.spent("patients").charges) == 3
    # One charge with two prices: which of them was paid is not ours to say.
    path = write_old(state.root, "patients", [("c", 0.75, 0.0)])
    refuses(Code.ACCOUNT_CONFLICT, lambda: Accounts(state, POLICY))
    assert len(accounts.spent("patients").charges) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET epsilon = 0.1 WHERE key = 'job:a'",
        "UPDATE charges SET key = 'job:z' WHERE key = 'job:a'",
        "UPDATE charges SET population = 'staff' WHERE key = 'job:a'",
        "DELETE FROM charges WHERE key = 'job:a'",
    ],
)
def test_charges_that_were_tampered_with(state, statement: str) -> None:
    accounts = Accounts(state, POLICY)
    accounts.charge("patients", "job:a", 1.0)
    accounts.charge("patients", "job:b", 1.0)
    other = Store(state)
    other._base.execute(statement)
    refuses(Code.JOURNAL_DAMAGED, lambda: accounts.spent("patients"))
    refuses(Code.JOURNAL_DAMAGED, lambda: accounts.check("patients", "job:c", 0.5))
    refuses(Code.JOURNAL_DAMAGED, lambda: accounts.charge("patients", "job:c", 0.5))


def test_threads(state) -> None:
    accounts = Accounts(state, POLICY.model_copy(update={"populations": {"patients": 10.0}}))
    new: list[str] = []
    refused: list[str] = []

    def work(worker: int) -> None:
        # Every key is tried by two threads; there is room for ten charges.
        for i in range(8):
            key = f"job:{(worker // 2) * 8 + i}"
            try:
                if accounts.charge("patients", key, 1.0):
                    new.append(key)
            except Exception:
                refused.append(key)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(new) == len(set(new)) == 10
    assert accounts.spent("patients").epsilon == 10.0
    assert refused


def _charge_many(root: Path, name: str, n: int) -> None:
    accounts = Accounts(StateFolder(root), POLICY.model_copy(update={"populations": {"p": 100.0}}))
    for i in range(n):
        accounts.charge("p", f"{name}:{i}", 1.0)


def test_processes_share_an_account(state) -> None:
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_charge_many, args=(state.root, f"w{i}", 20)) for i in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    spent = Accounts(state, POLICY).spent("p")
    assert spent.epsilon == 60.0


def test_killed_in_the_middle(state) -> None:
    """Whatever was acknowledged is there; what is there is whole."""
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=_charge_many, args=(state.root, "w", 100))
    worker.start()
    accounts = Accounts(state, POLICY)
    end = time.monotonic() + 20
    while len(accounts.spent("p").charges) < 5 and time.monotonic() < end:
        time.sleep(0.001)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    charges = accounts.spent("p").charges
    assert 5 <= len(charges) <= 100
    assert [charge.key for charge in charges] == [f"w:{i}" for i in range(len(charges))]


def test_patience_with_another_process(state) -> None:
    accounts = Accounts(state, POLICY, patience=0.1)
    accounts.charge("patients", "job:a", 1.0)
    with Store(state).transaction("another process"):
        refuses(Code.JOURNAL_IN_USE, lambda: accounts.charge("patients", "job:b", 1.0))
        # Who only looks waits for nobody.
        assert accounts.spent("patients").epsilon == 1.0
    assert accounts.charge("patients", "job:b", 1.0)


def test_the_worst_audience() -> None:
    costs = {"public": Guarantee(0.0, 0.0), "analyst": Guarantee(1.0, 1e-9)}
    assert worst(costs) == (1.0, 1e-9)
    assert worst({}) == (math.inf, 0.0)


runner = CliRunner()
TEN = Lifetime(epsilon=10.0)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, owners=("north",), coordinator="delta")


def accounts(town: Town) -> Accounts:
    return Accounts(town.parties["north"].state, town.policy("north"))


def shown(*arguments: object) -> str:
    done = runner.invoke(app, ["account", "show", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_who_holds_no_population_has_no_account(tmp_path: Path) -> None:
    """Not an empty one, as if nothing was charged."""
    town = Town(tmp_path, owners=("north",), coordinator="delta", analysts=("zoe",))
    for name, kind in (("delta", "a coordinator"), ("zoe", "an analyst")):
        for more in ([], ["--here"], ["--format", "json"]):
            folder = town.parties[name].folder
            done = runner.invoke(app, ["account", "show", str(folder), *more])
            assert done.exit_code != 0, done.output
            assert "H905" in str(done.exception)
            assert f"{name}, which is {kind} and holds no population" in str(done.exception)


def test_what_is_left(town: Town) -> None:
    folder = town.parties["north"].folder
    assert balances_in(folder) == [Balance("patients", accounts(town).spent("patients"), TEN)]
    accounts(town).charge("patients", "a" * 64, 1.5, 1e-12, what="topdown wards, as north")
    accounts(town).charge("patients", "b" * 64, 0.25)
    (found,) = balances_in(folder)
    assert (found.spent.epsilon, found.limit.epsilon, found.left) == (1.75, 10.0, 8.25)
    assert [charge.key for charge in found.spent.charges] == [
        f"job:{letter * 64}" for letter in "ab"
    ]
    text = shown(folder)
    assert "spent epsilon 1.75 of 10, delta 1e-12 of 1e-06; left: 8.25 and 9.99999e-07" in text
    assert "topdown wards" in text
    (row,) = json.loads(shown(folder, "--format", "json"))["accounts"]
    assert (row["spent"]["epsilon"], row["limit"], row["left"]) == (1.75, 10.0, 8.25)
    assert (row["delta_limit"], row["delta_left"]) == (1e-6, 1e-6 - 1e-12)


def test_more_was_spent_than_a_new_policy_allows(town: Town) -> None:
    accounts(town).charge("patients", "a", 4.0)
    set_line(town.parties["north"].folder / "policy.toml", "patients", "3.0")
    (found,) = balances_in(town.parties["north"].folder)
    assert found.left == 0.0


def test_without_a_limit_there_is_no_end(town: Town) -> None:
    path = town.parties["north"].folder / "policy.toml"
    set_line(path, "allow_exact", "true")
    set_line(path, "patients", "inf")
    accounts(town).charge("patients", "a", math.inf)
    folder = town.parties["north"].folder
    (row,) = json.loads(shown(folder, "--format", "json"))["accounts"]
    assert (row["spent"]["epsilon"], row["limit"], row["left"]) == ("inf", "inf", "inf")
    assert "spent epsilon inf of inf" in shown(folder)


def test_a_copy_elsewhere_has_no_limit(town: Town, tmp_path: Path) -> None:
    accounts(town).charge("patients", "a", 1.0)
    copy = tmp_path / "copy"
    shutil.copytree(town.parties["north"].folder / "state", copy / "state")
    (found,) = balances_in(copy)
    assert (found.spent.epsilon, found.left) == (1.0, None)
    assert "no policy.toml" in shown(copy)


def test_looking_makes_no_state(town: Town) -> None:
    folder = town.parties["north"].folder
    assert [one.spent.charges for one in balances_in(folder)] == [()]
    assert not (folder / "state" / "party.db").exists()
