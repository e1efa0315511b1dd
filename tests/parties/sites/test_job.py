"""Job files of a vertical ID3: strict, and honest about what it costs."""

import math
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.protocols.vertical_id3.job import SiteJob
from tests.parties.consortia import found
from tests.parties.sites.site_town import SITES, SiteTown, job_dict, make_job
from tests.parties.wire.parties_calls import refuses


def test_the_protocol_gets_what_the_job_says() -> None:
    job = make_job(class_at="office", max_depth=3, ring="all", epsilon=2.0, align=False)
    expected = SiteJob(3, 2, 2, max_depth=3, ring="all", align=False, epsilon=2.0)
    assert job.protocol_job() == expected
    assert job.starter == "office"
    every = make_job(class_at="all", classes=4)
    assert every.protocol_job() == SiteJob(3, None, 4, align=True)
    assert every.starter == "club"
    assert (every.label(3), job.label(1)) == ("class 3", "yes")


def test_text_and_hash(tmp_path: Path) -> None:
    job = make_job(max_depth=3)
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml())
    assert VerticalJob.load(path) == job
    every = make_job(max_depth=3, epsilon=1.0)
    assert set(every.to_dict()) == set(VerticalJob.model_fields)
    hashes = {make_job(**change).hash for change in ({}, {"max_depth": 3}, {"classes": 2})}
    assert len(hashes | {make_job(timeouts={"lost": 9.0}).hash}) == 4
    assert job.run_id == f"tennis-{job.hash[:12]}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "topdown"}, "kind"),
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
        ({"answers_to": "class site", "class_at": "all"}, "all sites hold the class"),
        ({"timeouts": {"lost": 0.0}}, "timeouts: lost"),
        ({"domain": {}}, "domain"),
        ({"name": "x" * 51}, "more than 50"),
    ],
)
def test_what_is_refused(changes, words: str) -> None:
    refused = refuses(Code.BAD_JOB, lambda: VerticalJob.model_validate(job_dict(**changes)))
    assert words in refused.found


def test_every_site_learns_exact_counts_and_the_policy_must_say_so(tmp_path: Path) -> None:
    job = make_job(epsilon=1.0, max_depth=2)
    costs = job.costs()
    assert costs.pop("public") == 1.0
    assert costs == {f"site {name}": math.inf for name in SITES}
    assert make_job(cardinality="secret").costs()["server"] == math.inf
    assert math.isinf(make_job().costs()["public"])
    town = SiteTown(tmp_path)
    policy = Policy.load(town.parties["club"].folder)
    job.check_policy(policy)
    refuses(Code.POLICY_REFUSES, lambda: make_job(population="nights").check_policy(policy))
    refuses(Code.POLICY_REFUSES, lambda: make_job(epsilon=2.0, max_depth=2).check_policy(policy))
    strict = policy.model_copy(update={"allow_exact": False, "populations": {"days": 3.0}})
    refused = refuses(Code.POLICY_REFUSES, lambda: job.check_policy(strict))
    assert "allow_exact" in refused.expected


def test_who_is_no_site(tmp_path: Path) -> None:
    town = SiteTown(tmp_path)
    assert [make_job().index(town.parties[name]) for name in SITES] == [0, 1, 2]
    refuses(
        Code.UNKNOWN_MEMBER, lambda: make_job(sites=["club", "north"]).index(town.parties["club"])
    )
    two = make_job(sites=["club", "office"])
    refuses(Code.NOT_IN_JOB, lambda: two.index(town.parties["observatory"]))
    (tmp_path / "other").mkdir(mode=0o700)
    refuses(Code.UNKNOWN_MEMBER, lambda: make_job().index(found(tmp_path / "other")["north"]))
