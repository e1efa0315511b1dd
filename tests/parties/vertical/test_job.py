"""Job files of a vertical ID3: strict, and honest about what it costs."""

import math
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.admission import admit
from hedgerow.parties.runs.jobs import read_job
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.protocols.vertical_id3.job import SiteJob
from tests.parties.consortia import found
from tests.parties.vertical.site_towns import SERVERS, SITES, VerticalTown, job_dict, make_job
from tests.parties.wire.parties_calls import refuses


def test_the_protocol_gets_what_the_job_says() -> None:
    job = make_job(class_at="office", max_depth=3, ring="all", epsilon=2.0)
    expected = SiteJob(3, 2, 2, max_depth=3, ring="all", align=True, epsilon=2.0)
    assert make_job(align=False).protocol_job() == SiteJob(3, 0, 2)
    assert job.protocol_job() == expected
    every = make_job(class_at="all", classes=4)
    assert every.protocol_job() == SiteJob(3, None, 4, align=True)
    assert (every.label(3), job.label(1)) == ("class 3", "yes")


def test_text_and_hash(tmp_path: Path) -> None:
    job = make_job(max_depth=3)
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml())
    assert VerticalJob.load(path) == job
    every = make_job(max_depth=3, epsilon=1.0)
    assert {*every.to_dict(), "analysts"} == set(VerticalJob.model_fields)
    assert read_job(every.to_toml()) == every
    hashes = {make_job(**change).hash for change in ({}, {"max_depth": 3}, {"classes": 2})}
    assert len(hashes) == 3
    assert job.run_id == f"tennis-{job.hash[:12]}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": "topdown"}, "protocol"),
        ({"sites": ["club"]}, "sites"),
        ({"sites": ["club", "club", "office"]}, "twice"),
        ({"sites": ["club", "all"]}, "stands for all"),
        ({"class_at": "north"}, "none of the sites"),
        ({"classes": 1}, "classes"),
        ({"classes": ["no"]}, "one class"),
        ({"classes": ["no", "no"]}, "classes"),
        ({"classes": ["no", 1]}, "several types"),
        ({"epsilon": 1.0}, "without a max_depth"),
        ({"epsilon": 0.0, "max_depth": 2}, "epsilon"),
        ({"max_depth": 0}, "max_depth"),
        ({"ring": "some"}, "ring"),
        ({"cardinality": "plain"}, "cardinality"),
        ({"align": "yes"}, "align"),
        ({"align": False, "epsilon": 1.0, "max_depth": 2}, "would end the run"),
        ({"answers_to": "class site", "class_at": "all"}, "all sites hold the class"),
        ({"timeouts": {"lost": 9.0}}, "timeouts"),
        ({"analysts": ["zoe"]}, "by its sites alone"),
        ({"domain": {}}, "domain"),
        ({"name": "x" * 51}, "more than 50"),
    ],
)
def test_what_is_refused(changes, words: str) -> None:
    refused = refuses(Code.BAD_JOB, lambda: VerticalJob.model_validate(job_dict(**changes)))
    assert words in refused.found


def test_the_name_of_older_versions() -> None:
    text = make_job().to_toml().replace('"vertical-id3"', '"ppid3"')
    refused = refuses(Code.BAD_JOB, lambda: read_job(text))
    assert "vertical-id3" in refused.expected


def test_every_site_learns_exact_counts_and_the_policy_must_say_so(tmp_path: Path) -> None:
    job = make_job(epsilon=1.0, max_depth=2)
    costs = {audience: cost.epsilon for audience, cost in job.costs().items()}
    assert costs.pop("public") == 1.0
    assert costs == {f"site {name}": math.inf for name in SITES}
    assert math.isinf(make_job(cardinality="secret").costs()["server"].epsilon)
    assert math.isinf(make_job().costs()["public"].epsilon)
    town = VerticalTown(tmp_path)
    config, policy = town.parties["club"], town.policy("club")

    def admitted(job: VerticalJob, policy: Policy, by: str = "office") -> object:
        return admit(job, by, config, policy, Accounts(config.state, policy))

    admitted(job, policy)
    refuses(Code.POLICY_REFUSES, lambda: admitted(make_job(population="nights"), policy))
    refuses(Code.POLICY_REFUSES, lambda: admitted(make_job(epsilon=2.0, max_depth=2), policy))
    strict = policy.model_copy(update={"allow_exact": False, "populations": {"days": 3.0}})
    refused = refuses(Code.POLICY_REFUSES, lambda: admitted(job, strict))
    assert "allow_exact" in refused.expected


def test_who_takes_part(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path, secret=True)
    club = town.parties["club"]
    assert [seat.name for seat in make_job().seats(club)] == list(SITES)
    secret = make_job(cardinality="secret")
    assert [seat.name for seat in secret.seats(club)] == [*SERVERS, *SITES]
    refuses(Code.UNKNOWN_MEMBER, lambda: make_job(sites=["club", "north"]).seats(club))
    two, policy = make_job(sites=["club", "office"]), town.policy("observatory")
    config = town.parties["observatory"]
    accounts = Accounts(config.state, policy)
    refuses(Code.NOT_IN_JOB, lambda: admit(two, "club", config, policy, accounts))
    (tmp_path / "other").mkdir(mode=0o700)
    refuses(Code.UNKNOWN_MEMBER, lambda: make_job().seats(found(tmp_path / "other")["north"]))
