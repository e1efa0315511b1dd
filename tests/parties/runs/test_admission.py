"""A server takes a job if its policy, its accounts and its uploads allow it."""

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.admission import admit, charge
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.tables import Target
from tests.parties.roles.upload_servers import DOMAIN, consortium
from tests.parties.runs.party_jobs import make_job, make_manifest
from tests.parties.wire.parties_calls import refuses


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    config = consortium(tmp_path_factory.mktemp("wards"))["birch"]
    for id in ("north-1", "south-1"):
        with open_store(config.state).transaction("upload") as made:
            made.put_upload(id, make_manifest(id).to_json())
    return config


@pytest.fixture
def accounts(server, tmp_path):
    return Accounts(StateFolder(tmp_path / "state"), Policy.load(server.folder))


def test_a_good_job(server, accounts) -> None:
    job = make_job()
    part = admit(job, "north", server, accounts.policy, accounts)
    assert part.governors() == {"north", "south"}
    assert accounts.spent("patients").epsilon == 0
    assert charge(job, server, accounts)
    assert not charge(job, server, accounts)
    spent = accounts.spent("patients")
    assert spent.epsilon == pytest.approx(1.0)
    assert 0 < spent.delta < 1e-15
    assert spent.charges[0].key == job.account_key == f"job:{job.hash}"
    assert job.run_id in spent.charges[0].what


def test_the_account_is_for_all_jobs_together(server, accounts) -> None:
    """Three jobs of epsilon 1 are all that the population has; the first ones still pass."""
    jobs = [make_job(name=f"job-{i}") for i in range(4)]
    for job in jobs[:3]:
        admit(job, "north", server, accounts.policy, accounts)
        charge(job, server, accounts)
    error = refuses(
        Code.POLICY_REFUSES, lambda: admit(jobs[3], "north", server, accounts.policy, accounts)
    )
    assert "spent" in error.found
    refuses(Code.POLICY_REFUSES, lambda: charge(jobs[3], server, accounts))
    # Resumed after a crash: it was paid.
    admit(jobs[2], "north", server, accounts.policy, accounts)


def test_who_may_post(server, accounts) -> None:
    """The policy says who; where it does not, owners of the uploads of the job."""
    policy = accounts.policy
    assert policy.allowed_posters == ("north", "south")
    error = refuses(Code.POLICY_REFUSES, lambda: admit(make_job(), "zoe", server, policy, accounts))
    assert "allowed_posters" in error.expected
    named = policy.model_copy(update={"allowed_posters": ("zoe",)})
    admit(make_job(), "zoe", server, named, accounts)
    refuses(Code.POLICY_REFUSES, lambda: admit(make_job(), "north", server, named, accounts))
    silent = policy.model_copy(update={"allowed_posters": None})
    admit(make_job(), "south", server, silent, accounts)
    for other in ("zoe", "west"):
        refuses(
            Code.POLICY_REFUSES,
            lambda other=other: admit(make_job(), other, server, silent, accounts),
        )


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        (Code.UNKNOWN_MEMBER, {"analysts": ["eve"]}),
        (Code.WRONG_ROLE, {"analysts": ["north"]}),
        (Code.POLICY_REFUSES, {"protocol": "open-tree"}),
        (Code.POLICY_REFUSES, {"plan": {"epsilon": 1.1}}),
        (Code.POLICY_REFUSES, {"plan": {"epsilon": None, "noise": "none"}}),
        (Code.POLICY_REFUSES, {"plan": {"noise": "leaves"}}),
        (Code.POLICY_REFUSES, {"population": "staff"}),
        (
            Code.POLICY_REFUSES,
            {"plan": {"noise": "votes", "queries": 1000, "delta": 1e-6, "n_trees": 5}},
        ),
        (Code.UNKNOWN_UPLOAD, {"uploads": ["north-1", "west-1"]}),
        (Code.UPLOADS_DO_NOT_FIT, {"domain": DOMAIN.select(["age", "ward"]).to_dict()}),
        (Code.UPLOADS_DO_NOT_FIT, {"plan": {"capacity": 99}}),
        (Code.POLICY_REFUSES, {"plan": {"max_depth": 60}}),
        (Code.BAD_PARAMETER, {"plan": {"max_depth": 20, "branching": "wary"}}),
    ],
)
def test_what_is_refused(server, accounts, code: Code, changes) -> None:
    refuses(code, lambda: admit(make_job(**changes), "north", server, accounts.policy, accounts))


HUGE = {
    "largest_trees_per_job": {
        "protocol": "hidden-boosting",
        "plan": {"n_rounds": 1000, "max_depth": 12},
        "domain": DOMAIN.model_copy(
            update={"target": Target(name="ill", classes=tuple(f"c{i}" for i in range(10)))}
        ).to_dict(),
    },
    "largest_depth": {"plan": {"max_depth": 1 << 40, "n_trees": 1000}},
    "queries_per_model": {
        "plan": {"noise": "votes", "queries": 1_000_000, "delta": 1e-6, "epsilon": 1e-9}
    },
    "largest_epsilon_per_job": {
        "protocol": "hidden-boosting",
        "plan": {"epsilon": 1.5, "n_rounds": 100},
    },
    "allowed_protocols": {"protocol": "open-tree", "plan": {"max_depth": 12}},
    "allowed_analysts": {"analysts": ["yves"]},
}
"""By the line of the policy that is in the way, jobs that would take long to be counted."""


@pytest.mark.parametrize("line", HUGE)
def test_the_policy_comes_before_any_computation(server, accounts, monkeypatch, line: str) -> None:
    """A text of a few hundred bytes cost a server 11 to 19 s of its processor and 435 MB."""

    def computed(*_: object) -> None:
        raise AssertionError("something was computed for a job that the policy does not allow")

    monkeypatch.setattr(ServerJob, "make_plan", computed)
    monkeypatch.setattr(ServerJob, "costs", computed)
    monkeypatch.setattr(ServerJob, "seats", lambda job, config: config.servers)
    job = make_job(**HUGE[line])
    error = refuses(
        Code.POLICY_REFUSES, lambda: admit(job, "north", server, accounts.policy, accounts)
    )
    assert error.expected.startswith(f"what policy.toml allows: {line} = ")


def test_a_domain_that_was_read_from_data(server, accounts) -> None:
    drafted = DOMAIN.model_copy(update={"provenance": "read from data"}).to_dict()
    job = make_job(domain=drafted)
    refuses(
        Code.DOMAIN_READ_FROM_DATA, lambda: admit(job, "north", server, accounts.policy, accounts)
    )
