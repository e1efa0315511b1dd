"""A job of owners and a coordinator: who takes part, without whom, and who has posted it."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.posting import check_signature, sign_job
from hedgerow.parties.runs.admission import admit
from hedgerow.parties.runs.jobs import load_job, read_job
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import JobFields, RunVerbs
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table, own_table
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.wire.handlers import Caller, Incoming
from tests.parties.topdown.topdown_jobs import NO_NOISE, OWNERS, SERVERS, make_job, topdown_town
from tests.parties.towns import Town, set_line
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return topdown_town(tmp_path, secret=True)


def names(job: TopDownJob, config: PartyConfig) -> list[str]:
    return [seat.name for seat in job.seats(config)]


def test_who_takes_part(town: Town) -> None:
    config = town.parties["north"]
    assert names(make_job(), config) == ["delta", *OWNERS]
    assert names(make_job(plan={"method": "secure-counts"}), config) == [
        *SERVERS,
        "delta",
        *OWNERS,
    ]
    refuses(Code.UNKNOWN_MEMBER, lambda: make_job(owners=["west"]).seats(config))
    refuses(Code.WRONG_ROLE, lambda: make_job(owners=["delta"]).seats(config))


def test_without_whom_it_goes_on() -> None:
    assert make_job().least == 3
    assert not make_job().can_do_without(["north"])
    some = make_job(least_owners=2)
    assert some.can_do_without(["north"])
    assert not some.can_do_without(["north", "east"])
    assert not some.can_do_without(["delta"])
    refuses(Code.BAD_JOB, lambda: TopDownJob.from_toml(_toml(least_owners=4)))


def _toml(**changes: object) -> str:
    return make_job().to_toml().replace("[plan]", f"{_lines(changes)}\n[plan]", 1)


def _lines(changes: dict[str, object]) -> str:
    return "\n".join(f"{key} = {value}" for key, value in changes.items())


def test_a_job_of_any_protocol_is_read(town: Town) -> None:
    job = make_job()
    assert read_job(job.to_toml()) == job
    assert load_job(town.write(job)) == job
    for text in ("", 'protocol = "forest"\n', "protocol = 3\n"):
        error = refuses(Code.BAD_JOB, lambda text=text: read_job(text + 'name = "a"\n'))
        assert "'topdown'" in error.expected


def test_the_policy_of_an_owner_binds_whoever_posts(town: Town) -> None:
    config = town.parties["north"]
    policy = town.policy("north")
    accounts = Accounts(config.state, policy)
    job = make_job(plan={"epsilon": NO_NOISE})
    admit(job, "south", config, policy, accounts)
    refuses(Code.POLICY_REFUSES, lambda: admit(job, "delta", config, policy, accounts))
    set_line(config.folder / "policy.toml", "largest_epsilon_per_job", "1.0")
    strict = town.policy("north")
    error = refuses(Code.POLICY_REFUSES, lambda: admit(job, "south", config, strict, accounts))
    assert "largest_epsilon_per_job" in error.expected
    # The coordinator has no account, and sees what is public anyway.
    delta = town.parties["delta"]
    admit(job, "south", delta, town.policy("delta"), Accounts(delta.state, town.policy("delta")))
    # Servers take part in secret counts alone.
    alder = town.parties["alder"]
    refuses(Code.NOT_IN_JOB, lambda: admit(job, "south", alder, policy, accounts))


def test_an_owner_without_a_table_does_not_take_the_job(town: Town) -> None:
    config, policy = town.parties["north"], town.policy("north")
    accounts, job = Accounts(config.state, policy), make_job(plan={"epsilon": 1.0})
    path = own_table(config.state, "patients").path
    path.rename(path.with_suffix(".moved.csv"))
    error = refuses(Code.NO_TABLE_HERE, lambda: admit(job, "north", config, policy, accounts))
    # Others hear of it, and of no path.
    assert str(path.parent) not in str(error)
    keep_own_table(config.state, OwnTable("patients", path.with_suffix(".moved.csv")))
    admit(job, "north", config, policy, accounts)
    # Other columns are found before anything is charged.
    other = path.with_name("other.csv")
    other.write_text("age,ward,ill\n3,a,no\n")
    keep_own_table(config.state, OwnTable("patients", other))
    error = refuses(Code.MISSING_COLUMN, lambda: admit(job, "north", config, policy, accounts))
    assert "'sex'" in error.found
    assert accounts.spent("patients").charges == ()
    keep_own_table(config.state, OwnTable("patients", path.with_suffix(".moved.csv")))
    assert own_table(config.state, "patients").path == path.with_suffix(".moved.csv")


def test_a_job_that_is_passed_on_is_signed_by_its_poster(town: Town) -> None:
    """The leader's word for who has posted a job is not enough."""
    north, south = town.parties["north"], town.parties["south"]
    job = make_job(plan={"epsilon": 1.0})
    signature = sign_job(south, job.hash)
    check_signature(north, job.hash, "south", signature)
    for hash_, by, found in (
        (make_job(name="other").hash, "south", signature),
        (job.hash, "east", signature),
        (job.hash, "south", sign_job(town.parties["delta"], job.hash)),
        (job.hash, "south", b""),
    ):
        refuses(Code.NOT_SIGNED, lambda h=hash_, b=by, f=found: check_signature(north, h, b, f))
    refuses(Code.UNKNOWN_MEMBER, lambda: check_signature(north, job.hash, "west", signature))
    verbs = RunVerbs(RunManager(north, town.policy("north"), None))
    leader = Caller("delta", "coordinator")

    def passed_on(**fields: str) -> None:
        text = job.to_toml().encode()
        verbs.job(leader, JobFields(**fields), Incoming(len(text), lambda: text))

    refuses(Code.NOT_SIGNED, lambda: passed_on(by="south"))
    refuses(Code.NOT_SIGNED, lambda: passed_on(by="south", signature="00" * 64))
    passed_on(by="south", signature=signature.hex())
    assert verbs.manager.store.get(job.run_id).by == "south"


@pytest.mark.parametrize("code", [Code.NO_TABLE_HERE, Code.MISSING_COLUMN])
def test_a_run_does_not_wait_for_rows_that_are_not_there(town: Town, code: Code) -> None:
    """An owner that has none for the job says so, and nothing was charged."""
    config = town.parties["delta"]
    manager = RunManager(config, town.policy("delta"), None)
    for job, state in ((make_job(), "failed"), (make_job(least_owners=2), "accepted")):
        run = manager.store.accept(job, "south")
        with manager._lock:
            manager._absent(run, {"north": code.error(found="none of patients")})
        assert run.state == state
        assert run.error is None or run.error.code is code
