"""An owner's own policy binds the servers that have its rows, and its account has their charges."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import OwnerTerms, Policy
from hedgerow.parties.roles.owner_account import Bookkeeper, check_listed, fetch_charges
from hedgerow.parties.roles.uploading import renew_terms
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.wire.client import call_member
from tests.parties.roles.owner_wards import Manager, Wards, one
from tests.parties.roles.upload_servers import (
    SERVERS,
    serving,
)
from tests.parties.runs.run_servers import set_line
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def wards(tmp_path: Path) -> Iterator[Wards]:
    made = Wards(tmp_path)
    with serving(made.parties, made.verbs):
        yield made


LINES = {
    "largest_epsilon_per_job": "0.5",
    "largest_delta_per_job": "1e-30",
    "allowed_protocols": '["open-tree"]',
    "allowed_analysts": "[]",
    "allowed_posters": '["north"]',
    "largest_trees_per_job": "0",
    "largest_depth": "1",
    "patients": "0.5",
}


def test_a_job_beyond_an_owners_own_policy_does_not_start(wards: Wards) -> None:
    """Whoever has posted it; every server refuses it by itself, and nothing is charged."""
    wards.upload()
    file = wards.policy_file("north")
    before = file.read_text()
    for line, value in LINES.items():
        set_line(file, line, value)
        renew_terms(wards.north, "patients", None)
        for name in SERVERS:
            accept = wards.managers[name].accept
            error = refuses(Code.POLICY_REFUSES, lambda a=accept: a(one().to_toml(), "zoe"))
            assert error.expected.startswith("what policy.toml of north allows:")
            assert line in error.expected
            assert "hedgerow uploads terms" in error.fix
        refuses(Code.POLICY_REFUSES, lambda: wards.post(one()))
        file.write_text(before)
    assert [wards.spent(name) for name in SERVERS] == [0.0] * 3
    renew_terms(wards.north, "patients", None)
    wards.post(one())
    wards.go(one())
    assert wards.spent("cedar") == pytest.approx(1.0)


def test_a_population_that_is_not_listed_is_met_with_those_that_are(wards: Wards) -> None:
    error = refuses(Code.POLICY_REFUSES, lambda: check_listed(wards.north, "pateints"))
    assert error.found.endswith("which is not listed (did you mean 'patients'?)")
    assert error.fix.startswith("name one that is listed (patients), or write")
    assert "did you mean" not in (
        refuses(Code.POLICY_REFUSES, lambda: check_listed(wards.north, "nights")).found
    )


def test_terms_count_until_a_job_is_charged(wards: Wards) -> None:
    """A run that was taken does not begin under stricter terms; one that was charged has paid."""
    wards.upload()
    first, second = one("first"), one("second")
    wards.post(first)
    wards.post(second)
    wards.go(first)
    set_line(wards.policy_file("north"), "patients", "1.5")
    renew_terms(wards.north, "patients", None)
    error = refuses(Code.POLICY_REFUSES, lambda: wards.go(second))
    assert "patients.epsilon = 1.5" in error.expected
    assert "epsilon 1 spent and 1 more" in error.found
    assert wards.spent("alder") == pytest.approx(1.0)
    # Once more in the transaction of the charge: terms may have come after the job was admitted.
    alder = wards.managers["alder"].accounts
    refuses(Code.POLICY_REFUSES, lambda: alder.charge("patients", "job:x", 1.0, owners=["north"]))
    assert alder.charge("patients", "job:x", 1.0, owners=["south"])


def test_all_uploads_of_a_population_have_one_lifetime(wards: Wards) -> None:
    """The terms that came last are those of all uploads; a second upload promises nothing more."""
    wards.upload(lifetime_epsilon=1.25)
    wards.post(one("first"))
    wards.go(one("first"))
    assert wards.upload("north-2", seed=1).terms.populations["patients"].epsilon == 1.25
    for job in (one("second"), one("third", uploads=["north-2"])):
        refuses(Code.POLICY_REFUSES, lambda job=job: wards.post(job))
    wards.upload("north-3", seed=2, lifetime_epsilon=math.inf)
    assert wards.promised() == (3.0, 1e-6)
    wards.post(one("second"))


def test_the_account_of_the_owner(wards: Wards) -> None:
    """It has what servers have charged, once, also where nobody is asked any more."""
    wards.upload()
    wards.post(one())
    wards.go(one())
    assert wards.spent("north") == 0.0
    Bookkeeper(wards.north).look()
    (charge,) = wards.accounts().spent("patients").charges
    assert (charge.key, charge.epsilon) == (one().account_key, pytest.approx(1.0))
    assert one().run_id in charge.what
    told = wards.trail("north")
    for _ in range(2):
        found = fetch_charges(PartyConfig.load(wards.north.folder))
        assert found.is_well
    assert wards.trail("north") == told
    (balance,) = balances_in(wards.north.folder)
    assert balance.left == pytest.approx(2.0)
    # Others who have no rows there hear nothing, and nobody opens another account.
    assert fetch_charges(wards.parties["south"]).populations == []
    for name in SERVERS:
        wards.managers[name].policy.populations["staff"] = Policy.load(
            wards.north.folder
        ).populations["patients"]
        wards.managers[name].accounts.charge("staff", "job:staff", 1.0)
    fetch_charges(wards.north)
    assert wards.accounts().populations() == ["patients"]


def test_what_was_promised_is_not_spent_elsewhere(wards: Wards) -> None:
    accounts = wards.accounts()
    accounts.charge("patients", "job:own", 1.0, 1e-7)
    assert wards.upload().terms.populations["patients"].epsilon == 2.0
    assert wards.promised() == (2.0, pytest.approx(9e-7))
    error = refuses(Code.POLICY_REFUSES, lambda: accounts.charge("patients", "job:more", 0.1))
    assert "epsilon 3 spent or promised to the servers" in error.found
    renew_terms(wards.north, "patients", 1.5)
    accounts.charge("patients", "job:more", 0.5)
    # What servers charge as well is part of their promise.
    accounts.charge("patients", "job:both", 1.0, shared=True)
    refuses(
        Code.POLICY_REFUSES, lambda: accounts.charge("patients", "job:both2", 0.75, shared=True)
    )
    refuses(Code.POLICY_REFUSES, lambda: accounts.charge("patients", "job:last", 0.01))
    wards.post(one(plan={"epsilon": 0.5}))
    wards.go(one(plan={"epsilon": 0.5}))
    fetch_charges(wards.north)
    assert wards.spent("north") == pytest.approx(3.0)
    assert wards.promised() == (1.5, pytest.approx(9e-7))


def test_a_server_that_did_not_hear_of_it(tmp_path: Path) -> None:
    """Less is promised only when all servers know; the others hold to it already."""
    wards, job = Wards(tmp_path), one(plan={"epsilon": 2.0})
    with serving(wards.parties, wards.verbs):
        wards.upload()
    with serving(wards.parties, wards.verbs, names=SERVERS[:2]):
        refuses(Code.SERVICE_UNREACHABLE, lambda: renew_terms(wards.north, "patients", 1.0))
        assert wards.promised() == (3.0, 1e-6)
        refuses(Code.POLICY_REFUSES, lambda: wards.accounts().charge("patients", "job:own", 1.0))
        refuses(Code.POLICY_REFUSES, lambda: wards.managers["alder"].accept(job.to_toml(), "zoe"))
        wards.managers["cedar"].accept(job.to_toml(), "zoe", check=True)
    with serving(wards.parties, wards.verbs):
        renew_terms(wards.north, "patients", None)
        assert wards.promised() == (1.0, 1e-6)
        refuses(Code.POLICY_REFUSES, lambda: wards.managers["cedar"].accept(job.to_toml(), "zoe"))
        wards.accounts().charge("patients", "job:own", 1.0)


def test_the_same_terms_are_told_once(wards: Wards) -> None:
    wards.upload()
    before = wards.trail("birch"), wards.trail("north")
    assert before[0].count("terms") == before[1].count("promise") == 1
    renew_terms(wards.north, "patients", None)
    assert (wards.trail("birch"), wards.trail("north")) == before


def test_a_population_that_is_not_listed(wards: Wards) -> None:
    """No upload, and no job any more on what was uploaded."""
    file = wards.policy_file("north")
    wards.upload()
    before = file.read_text()
    file.write_text(before[: before.index("\npatients = ")] + "\n")
    error = refuses(Code.POLICY_REFUSES, lambda: wards.upload("north-2", seed=1))
    assert "patients = 3.0" in error.fix
    assert renew_terms(wards.north, "patients", None).populations == {}
    error = refuses(Code.POLICY_REFUSES, lambda: wards.post(one()))
    assert error.expected == "what policy.toml of north allows: [populations]"
    file.write_text(before)
    wards.accounts().charge("patients", "job:all", 3.0)
    refuses(Code.POLICY_REFUSES, lambda: wards.upload("north-2", seed=1))
    refuses(Code.UNKNOWN_UPLOAD, lambda: renew_terms(wards.north, "staff", None))
    refuses(Code.WRONG_ROLE, lambda: renew_terms(wards.parties["zoe"], "patients", None))
    error = refuses(Code.BAD_PARAMETER, lambda: renew_terms(wards.north, "patients", -1.0))
    assert "--lifetime-epsilon" in error.expected


def test_without_a_limit(tmp_path: Path) -> None:
    """An owner that allows exact answers has promised no end; both sides have to allow them."""
    wards = Wards(tmp_path)
    for name in (*SERVERS, "north"):
        set_line(wards.policy_file(name), "allow_exact", "true")
        set_line(wards.policy_file(name), "patients", "inf")
    wards.managers = {name: Manager(wards.parties[name]) for name in SERVERS}
    exact = one(plan={"epsilon": None, "noise": "none"})
    with serving(wards.parties, wards.verbs):
        wards.upload()
        assert wards.promised() == (math.inf, 1e-6)
        wards.post(exact)
        wards.go(exact)
        fetch_charges(wards.north)
        assert wards.spent("north") == math.inf
        wards.accounts().charge("patients", "job:own", math.inf)
        renew_terms(wards.north, "patients", None)
        wards.post(one("second"))
        set_line(wards.policy_file("north"), "allow_exact", "false")
        set_line(wards.policy_file("north"), "patients", "5.0")
        renew_terms(wards.north, "patients", None)
        error = refuses(Code.POLICY_REFUSES, lambda: wards.post(one("third")))
        assert "north" in error.expected


def test_terms_of_somebody_hostile(wards: Wards) -> None:
    good = json.loads(Policy.load(wards.north.folder).terms("north", "patients", None).to_json())
    lifetime = {"epsilon": 1.0, "delta": 0.0}
    bad = [
        good | {"owner": "south"},
        good | {"populations": {"staff": lifetime}},
        good | {"populations": {"patients": {"epsilon": "inf", "delta": 0.0}}},
        good | {"populations": {"patients": {"epsilon": "nan", "delta": 0.0}}},
        good | {"allowed_analysts": ["../zoe"]},
        good | {"allowed_protocols": ["all"]},
        good | {"more": 1},
        [],
    ]

    def send(text: str, population: str = "patients", by: str = "north") -> None:
        fields, server = {"population": population}, wards.parties[by].servers[0]
        call_member(wards.parties[by], server, "terms", fields, text.encode())

    for terms in bad:
        code = Code.BAD_NAME if "../zoe" in json.dumps(terms) else Code.BAD_UPLOAD
        refuses(code, lambda terms=terms: send(json.dumps(terms)))
    refuses(Code.POLICY_REFUSES, lambda: send(json.dumps(good), "staff"))
    refuses(Code.CALLER_NOT_ALLOWED, lambda: send(json.dumps(good), by="zoe"))
    refuses(Code.PAYLOAD_TOO_LARGE, lambda: send(json.dumps(good) + " " * (1 << 16)))
    assert "terms" not in wards.trail("alder")
    send(json.dumps(good | {"populations": {"patients": lifetime}}))
    (kept,) = wards.managers["alder"].accounts.terms("patients", ["north", "south"])
    assert kept == OwnerTerms.model_validate(good | {"populations": {"patients": lifetime}})
