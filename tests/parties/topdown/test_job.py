"""Job files of DP-TopDown: strict, and their cost is known before anybody is asked."""

import math
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import list_members
from hedgerow.parties.topdown.job import TopDownJob, check_part
from hedgerow.privacy import Ledger
from hedgerow.protocols.topdown.options import TopDownOptions
from tests.parties.consortia import found
from tests.parties.topdown.topdown_town import DOMAIN, Town, job_dict, make_job
from tests.parties.wire.parties_calls import refuses


def test_the_plan_is_that_of_the_options() -> None:
    plan = make_job(plan={"method": "local-rnm", "criterion": "max"}).make_plan()
    options = TopDownOptions(
        epsilon=8.0, method="local-rnm", criterion="max", n_splits=12, max_depth=4
    )
    expected = options.plan(DOMAIN, n_owners=4)
    assert plan.digest == expected.digest


def test_a_depth_by_rule_and_shares_of_nodes() -> None:
    job = make_job(plan={"max_depth": "auto", "node_shares": [0.5, 0.5, 0.0], "budget": "decay"})
    assert job.make_plan().max_depth >= 1
    assert job.make_plan().node_shares == (0.5, 0.5, 0.0)
    assert make_job(plan={"leaf_share": 0.25}).make_plan().leaf_share == 0.25
    listed = make_job(plan={"budget": [1.0, 2.0], "max_depth": 2}).make_plan()
    assert listed.budget == (1.0, 2.0)


def test_the_cost_is_what_an_owner_charges() -> None:
    job = make_job()
    ledger = Ledger(domain=DOMAIN)
    ledger.charge(*job.make_plan().releases())
    costs = job.costs()
    assert set(costs) == {"public"}
    assert costs["public"].epsilon == ledger.total("public").epsilon
    assert 0.99 * 8.0 < costs["public"].epsilon <= 8.0
    # As published it has no finite epsilon, and says so.
    paper = make_job(owners=["north"], plan={"method": "single-machine", "accounting": "paper"})
    assert math.isinf(paper.costs()["public"].epsilon)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "trees"}, "kind"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"plan": {"epsilon": None}}, "plan: epsilon"),
        ({"plan": {"epsilon": 0.0}}, "plan: epsilon"),
        ({"plan": {"epsilon": "1"}}, "plan: epsilon"),
        ({"plan": {"n_splits": 0}}, "plan: n_splits"),
        ({"plan": {"n_splits": True}}, "plan: n_splits"),
        ({"plan": {"method": "exact"}}, "plan: method"),
        ({"plan": {"noise": "none"}}, "plan: noise"),
        ({"plan": {"method": "single-machine"}}, "more than one owner"),
        ({"owners": []}, "owners"),
        ({"owners": ["north", "north"]}, "twice"),
        ({"owners": ["../north"]}, "Name"),
        ({"least_owners": 5}, "least_owners is 5 of 4"),
        ({"least_owners": 0}, "least_owners"),
        ({"dropouts": "guess"}, "dropouts"),
        ({"timeouts": {"answer": 0.0}}, "timeouts: answer"),
        ({"timeouts": {"step": 1.0}}, "timeouts: step"),
        ({"population": None}, "population"),
        ({"name": "n" * 51}, "50 characters"),
    ],
)
def test_what_a_job_may_not_say(changes: dict, words: str) -> None:
    error = refuses(Code.BAD_JOB, lambda: TopDownJob._validated(job_dict(**changes), "the job"))
    assert words in error.found


def test_a_target_without_classes_is_refused() -> None:
    domain = DOMAIN.to_dict() | {"target": {"name": "ill", "bounds": [0.0, 1.0]}}
    assert "classes" in refuses(Code.BAD_JOB, lambda: make_job(domain=domain)).found


def test_owners_and_coordinator_are_members(tmp_path: Path) -> None:
    town = Town(tmp_path, ("north", "south"))
    make_job(owners=["north", "south"]).check_members(town.parties["delta"])
    refuses(Code.UNKNOWN_MEMBER, lambda: make_job().check_members(town.parties["delta"]))
    secure = make_job(owners=["north"], plan={"method": "secure-counts"})
    assert "three servers" in str(
        refuses(Code.ROLE_MISSING, lambda: secure.check_members(town.parties["north"]))
    )
    (tmp_path / "other").mkdir()
    with_servers = found(tmp_path / "other")["north"]
    job = make_job(owners=["north", "south"])
    assert "a coordinator" in str(
        refuses(Code.ROLE_MISSING, lambda: job.check_members(with_servers))
    )


VERBS = {"delta": "coordinate", "north": "join", "alder": "serve"}
ROLES = {"delta": "coordinator", "north": "owner", "alder": "server", "zoe": "analyst"}


def party(name: str) -> PartyConfig:
    servers = ("alder", "birch", "cedar")
    members = list_members(servers, ["north"], ["zoe"], coordinator="delta")
    return PartyConfig(consortium="wards", name=name, members=members)


@pytest.mark.parametrize("name", ROLES)
def test_each_role_has_its_command(name: str) -> None:
    for other, verb in VERBS.items():
        if other == name:
            check_part(party(name), ROLES[name])
            continue
        error = refuses(Code.WRONG_ROLE, lambda other=other: check_part(party(name), ROLES[other]))
        assert f"`hedgerow topdown {verb}` is for the {ROLES[other]}" in error.fix
        own = f"in this folder: hedgerow topdown {VERBS[name]};" if name in VERBS else "no part"
        assert own in error.fix
        assert f"{ROLES[name]}'s" in error.found
