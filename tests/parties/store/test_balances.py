"""An operator sees what the accounts of its party have paid, and what is left."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Lifetime
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.balances import Balance, balance_of, balances_in, population_of
from hedgerow.parties.store.journal import Journal
from tests.parties.topdown.topdown_town import Town
from tests.parties.wire.parties_calls import refuses

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
        assert [charge.key for charge in found.spent.charges] == ["a" * 64, "b" * 64]
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
