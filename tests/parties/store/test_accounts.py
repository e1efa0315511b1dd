"""Accounts: every charge counts once, for ever, and none goes beyond the policy."""

import json
import math
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Lifetime, Policy
from hedgerow.parties.store import accounts as module
from hedgerow.parties.store.accounts import (
    Accounts,
    Balance,
    balance_of,
    balances_in,
    population_of,
    worst,
)
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.journal import Journal
from hedgerow.privacy.accounting import Guarantee
from tests.parties.topdown.topdown_town import Town
from tests.parties.wire.parties_calls import refuses

POLICY = Policy(
    largest_epsilon_per_job=1.0,
    allowed_protocols=("trees",),
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


def test_journals_that_were_tampered_with(state, tmp_path) -> None:
    accounts = Accounts(state, POLICY)
    accounts.charge("patients", "job:a", 1.0)
    accounts.charge("patients", "job:b", 1.0)
    path = state.root / "accounts" / "patients.jsonl"
    good = path.read_bytes()
    lines = good.splitlines(keepends=True)
    for changed in (
        good.replace(b'"epsilon":1.0', b'"epsilon":0.1', 1),
        lines[0] + lines[2],
        lines[0] + lines[1] + lines[1],
        b"",
    ):
        path.write_bytes(changed)
        refuses(Code.JOURNAL_DAMAGED, lambda: accounts.spent("patients"))
        refuses(Code.JOURNAL_DAMAGED, lambda: accounts.charge("patients", "job:c", 0.5))
    # The account of others in its place.
    path.write_bytes(good)
    path.rename(path.with_name("staff.jsonl"))
    refuses(Code.JOURNAL_DAMAGED, lambda: accounts.spent("staff"))
    # A line that a crash has cut off was never acknowledged.
    path.write_bytes(good + b'{"entry":{"key":"job')
    assert accounts.spent("patients").epsilon == 2.0
    # Genuine lines that are no charges.
    path.unlink()
    about = {"kind": "account", "population": "patients"}
    for entry in ({"key": "a"}, {"key": "a", "epsilon": -1, "delta": 0, "what": "", "time": 0}):
        with Journal(path, about=about) as journal:
            journal.append(entry)
        refuses(Code.JOURNAL_DAMAGED, lambda: accounts.spent("patients"))
        path.unlink()
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(good)
    path.symlink_to(elsewhere)
    refuses(Code.UNSAFE_FOLDER, lambda: accounts.charge("patients", "job:d", 0.1))


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
    path = state.root / "accounts" / "patients.jsonl"
    with Journal(path, about={"kind": "account", "population": "patients"}):
        refuses(Code.JOURNAL_IN_USE, lambda: accounts.spent("patients"))
    assert accounts.spent("patients").epsilon == 1.0


def test_the_worst_audience() -> None:
    costs = {"public": Guarantee(0.0, 0.0), "analyst": Guarantee(1.0, 1e-9)}
    assert worst(costs) == (1.0, 1e-9)
    assert worst({}) == (math.inf, 0.0)


runner = CliRunner()
TEN = Lifetime(epsilon=10.0)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, ("north",))


def accounts(town: Town) -> Accounts:
    return Accounts(town.parties["north"].state, town.policy("north"))


def shown(*arguments: object) -> str:
    done = runner.invoke(app, ["account", "show", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_what_is_left(town: Town) -> None:
    folder = town.parties["north"].folder
    assert balances_in(folder) == [Balance("patients", accounts(town).spent("patients"), TEN)]
    accounts(town).charge("patients", "a" * 64, 1.5, 1e-12, what="topdown wards, as north")
    accounts(town).charge("patients", "b" * 64, 0.25)
    path = folder / "state" / "accounts" / "patients.jsonl"
    assert population_of(path) == "patients"
    for found in (balance_of(path, "patients"), *balances_in(folder)):
        assert (found.spent.epsilon, found.limit.epsilon, found.left) == (1.75, 10.0, 8.25)
        assert [charge.key for charge in found.spent.charges] == [
            f"job:{letter * 64}" for letter in "ab"
        ]
    for where in (path, folder):
        text = shown(where)
        assert "spent epsilon 1.75 of 10, delta 1e-12 of 1e-06; left: 8.25 and 9.99999e-07" in text
        assert "topdown wards" in text
        (row,) = json.loads(shown(where, "--format", "json"))["accounts"]
        assert (row["spent"]["epsilon"], row["limit"], row["left"]) == (1.75, 10.0, 8.25)
        assert (row["delta_limit"], row["delta_left"]) == (1e-6, 1e-6 - 1e-12)


def test_more_was_spent_than_a_new_policy_allows(town: Town) -> None:
    accounts(town).charge("patients", "a", 4.0)
    town.allow("north", patients="3.0")
    (found,) = balances_in(town.parties["north"].folder)
    assert found.left == 0.0


def test_without_a_limit_there_is_no_end(town: Town) -> None:
    town.allow_seeds()
    accounts(town).charge("patients", "a", math.inf)
    folder = town.parties["north"].folder
    (row,) = json.loads(shown(folder, "--format", "json"))["accounts"]
    assert (row["spent"]["epsilon"], row["limit"], row["left"]) == ("inf", "inf", "inf")
    assert "spent epsilon inf of inf" in shown(folder)


def test_a_copy_elsewhere_has_no_limit(town: Town, tmp_path: Path) -> None:
    accounts(town).charge("patients", "a", 1.0)
    path = town.parties["north"].folder / "state" / "accounts" / "patients.jsonl"
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(path.read_bytes())
    assert balance_of(copy, "patients").left is None
    assert "no policy.toml" in shown(copy)
    # A line that somebody has changed is found.
    copy.write_bytes(path.read_bytes().replace(b'"epsilon":1.0', b'"epsilon":0.5'))
    refuses(Code.JOURNAL_DAMAGED, lambda: balance_of(copy, "patients"))


def test_what_is_no_account_of_a_party(town: Town, tmp_path: Path) -> None:
    assert population_of(tmp_path / "nowhere.jsonl") is None
    other = tmp_path / "other.jsonl"
    Journal(other, about={"kind": "ledger", "population": "patients"}).close()
    assert population_of(other) is None
    for text in ("", "[]", "{}", '{"entry": 3}', "nonsense"):
        other.write_text(text)
        assert population_of(other) is None


def test_a_process_that_charges_is_waited_for(town: Town) -> None:
    accounts(town).charge("patients", "a", 1.0)
    path = town.parties["north"].folder / "state" / "accounts" / "patients.jsonl"
    with Journal(path, about={"kind": "account", "population": "patients"}):
        refuses(Code.JOURNAL_IN_USE, lambda: balance_of(path, "patients", patience=0.05))
    assert balance_of(path, "patients").spent.epsilon == 1.0
