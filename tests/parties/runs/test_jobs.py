"""Jobs: read strictly, written back the same, hashed whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from hedgerow.errors import Code
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.runs.jobs import MAX_JOB_BYTES, ServerJob, read_job
from hedgerow.protocols.registry import SERVER_PROTOCOLS
from hedgerow.tables import Target
from tests.parties.roles.upload_servers import DOMAIN
from tests.parties.runs.party_jobs import job_dict, make_job, make_manifest
from tests.parties.wire.parties_calls import refuses


def of(target: Target) -> dict:
    return DOMAIN.model_copy(update={"target": target}).to_dict()


NUMERIC = of(Target(name="cost", bounds=(0.0, 1.0)))
ONE, MANY = (of(Target(name="ill", classes=tuple(range(k)))) for k in (1, 11))
NOTHING = DOMAIN.select(["age"], target=False).to_dict()
*_FIRST, _LAST = map(repr, SERVER_PROTOCOLS)
LISTED = f"{', '.join(_FIRST)} or {_LAST}"
JOBS = {
    "hidden-tree": {},
    "open-tree": {"protocol": "open-tree"},
    "hidden-regression": {
        "protocol": "hidden-regression",
        "domain": NUMERIC,
        "plan": {"sum_share": 0.5},
    },
    "hidden-boosting": {
        "protocol": "hidden-boosting",
        "plan": {"n_rounds": 3, "learning_rate": 0.5},
    },
    "boosted numbers": {"protocol": "hidden-boosting", "domain": NUMERIC},
}


@pytest.mark.parametrize("name", JOBS)
def test_written_and_read_back(name: str) -> None:
    job = make_job(**JOBS[name])
    again = ServerJob.from_toml(job.to_toml())
    assert again == job
    assert again.hash == job.hash
    assert again.to_toml() == job.to_toml()
    assert job.run_id == f"readmission-{job.hash[:12]}"
    check_name(job.run_id)


def test_every_field_counts_in_the_hash() -> None:
    other = DOMAIN.select(["ward", "age", "sex"]).to_dict()
    changes = [
        {},
        {"name": "other"},
        {"protocol": "open-tree"},
        {"model": "other"},
        {"population": "staff"},
        {"uploads": ["south-1", "north-1"]},
        {"partition": "vertical"},
        {"analysts": ["zoe", "yan"]},
        {"plan": {"epsilon": 1.0000000001}},
        {"plan": {"public_seed": 1}},
        {"plan": {"max_depth": None}},
        {"protocol": "hidden-boosting"},
        {"protocol": "hidden-boosting", "plan": {"n_rounds": 21}},
        {"domain": other},
        {"domain": DOMAIN.model_copy(update={"capacity": 101}).to_dict()},
    ]
    hashes = [make_job(**change).hash for change in changes]
    assert len(set(hashes)) == len(hashes)
    # A default that is written out is the same job.
    assert make_job(plan={"n_trees": 1}).hash == hashes[0]


def test_the_hash_is_the_same_in_another_process() -> None:
    code = (
        "import sys; from hedgerow.parties.runs.jobs import ServerJob; "
        "print(ServerJob.from_toml(sys.stdin.read()).hash)"
    )
    text = make_job().to_toml()
    found = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == make_job().hash


def test_a_domain_in_a_file_of_its_own(tmp_path) -> None:
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml())
    path = tmp_path / "job.toml"
    text = tomli_w.dumps(job_dict(domain={"file": "domain.toml"}))
    path.write_text(text)
    assert ServerJob.load(path) == make_job()
    # A server opens no file that a job names.
    error = refuses(Code.BAD_JOB, lambda: ServerJob.from_toml(text))
    assert "domain.file" in error.found
    path.write_text(tomli_w.dumps(job_dict(domain={"file": "none.toml"})))
    refuses(Code.BAD_DOMAIN_FILE, lambda: ServerJob.load(path))
    path.write_text(tomli_w.dumps(job_dict(domain={"file": "domain.toml", "capacity": 3})))
    refuses(Code.BAD_JOB, lambda: ServerJob.load(path))
    refuses(Code.NO_JOB_FILE, lambda: ServerJob.load(tmp_path / "none.toml"))
    refuses(Code.BAD_JOB, lambda: ServerJob.load("a\0b"))
    path.write_bytes(b"\xff")
    refuses(Code.BAD_JOB, lambda: ServerJob.load(path))


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (LISTED, {"protocol": "magic"}),
        (LISTED, {"protocol": ["hidden-tree"]}),
        ("greater than 0", {"plan": {"epsilon": 0.0}}),
        ("greater than 0", {"plan": {"epsilon": -1.0}}),
        ("epsilon", {"plan": {"epsilon": float("inf")}}),
        ("epsilon", {"plan": {"epsilon": float("nan")}}),
        ("epsilon", {"plan": {"epsilon": "1"}}),
        ("epsilon", {"plan": {"epsilon": True}}),
        ("no epsilon", {"plan": {"epsilon": None}}),
        ("no finite epsilon", {"plan": {"noise": "none"}}),
        ("queries or delta", {"plan": {"queries": 5}}),
        ("max_depth", {"plan": {"max_depth": 0}}),
        ("max_depth", {"plan": {"max_depth": "deep"}}),
        ("max_dept", {"plan": {"max_dept": 3}}),
        ("rate", {"plan": {"rate": 1.5}}),
        ("capacity", {"plan": {"capacity": 0}}),
        ("uploads", {"uploads": []}),
        ("twice", {"uploads": ["a", "a"]}),
        ("twice", {"analysts": ["zoe", "zoe"]}),
        ("Name that is not allowed", {"name": "../x"}),
        ("Name that is not allowed", {"uploads": ["a/b"]}),
        ("Name that is not allowed", {"model": "A"}),
        ("Name that is not allowed", {"population": ""}),
        ("more than 50", {"name": "x" * 51}),
        ("nobody could ask", {"analysts": []}),
        ("partition", {"partition": "diagonal"}),
        ("more than one tree", {"protocol": "open-tree", "plan": {"n_trees": 2}}),
        ("max_features", {"protocol": "open-tree", "plan": {"max_features": 1}}),
        ("no bounds", {"protocol": "hidden-regression"}),
        ("no bounds", {"protocol": "hidden-regression", "domain": NOTHING}),
        ("without a target", {"protocol": "hidden-boosting", "domain": NOTHING}),
        ("one class", {"protocol": "hidden-boosting", "domain": ONE}),
        ("nobody could ask", {"protocol": "hidden-regression", "domain": NUMERIC, "analysts": []}),
        (
            "plan: n_trees",
            {"protocol": "hidden-regression", "domain": NUMERIC, "plan": {"n_trees": 2}},
        ),
        ("plan: criterion", {"protocol": "hidden-boosting", "plan": {"criterion": "gini"}}),
        ("plan: n_rounds", {"protocol": "hidden-boosting", "plan": {"n_rounds": 1001}}),
        (
            "more than 10000",
            {"protocol": "hidden-boosting", "domain": MANY, "plan": {"n_rounds": 1000}},
        ),
        ("plan: learning_rate", {"protocol": "hidden-boosting", "plan": {"learning_rate": 1.1}}),
        ("plan: noise", {"protocol": "hidden-boosting", "plan": {"noise": "leaves"}}),
        ("no epsilon", {"protocol": "hidden-boosting", "plan": {"epsilon": None}}),
        ("no finite epsilon", {"protocol": "hidden-boosting", "plan": {"noise": "none"}}),
        (
            "sum_share",
            {"protocol": "hidden-regression", "domain": NUMERIC, "plan": {"sum_share": 1.0}},
        ),
        ("unexpected", {"unexpected": 1}),
        ("Attribute is not well defined", {"domain": {"attributes": [{"name": "x"}]}}),
        ("no classes", {"domain": NOTHING}),
        ("no classes", {"domain": NUMERIC}),
        ("no classes", {"protocol": "open-tree", "domain": NUMERIC}),
    ],
)
def test_what_is_refused(words: str, changes) -> None:
    text = tomli_w.dumps(job_dict(**changes))
    error = refuses(Code.BAD_JOB, lambda: ServerJob.from_toml(text))
    assert words in error.found


def test_a_protocol_that_is_nearly_one_is_asked_about() -> None:
    text = tomli_w.dumps(job_dict(protocol="hiden-tree"))
    error = refuses(Code.BAD_JOB, lambda: read_job(text))
    assert error.found.endswith("protocol = hiden-tree (did you mean 'hidden-tree'?)")


def test_texts_that_are_no_jobs() -> None:
    for text in (
        "",
        "a = ",
        "[" * 100_000,
        "x" * (MAX_JOB_BYTES + 1),
        'domain = "x"',
        "protocol = 1",
    ):
        refuses(Code.BAD_JOB, lambda text=text: ServerJob.from_toml(text))


_SOUND = "attributes = [{name='x', kind='numeric', bounds=[0, 1], bins=3}]"


@pytest.mark.parametrize(
    "line",
    [
        f"capacity = {'9' * 5000}",
        f"capacity = {'9' * 400}",
        "capacity = 1e400",
        "provenance = 2020-01-01",
        "attributes = [{name='x', kind='numeric', bounds=[0, inf], bins=3}]",
        "attributes = [{name='x', kind='numeric', bounds=[nan, 1], bins=3}]",
        f"attributes = [{{name='x', kind='categorical', categories=[{'9' * 400}]}}]",
        "attributes = [{name='x', kind='numeric', bounds=[0, 1], bins=1000000000000}]",
    ],
)
def test_hostile_values_are_numbered_refusals(line: str) -> None:
    text = make_job().to_toml().partition("[domain]")[0]
    rest = "" if "attributes" in line else _SOUND
    target = '[domain.target]\nname = "y"\nclasses = [0, 1]\n'
    refuses(Code.BAD_JOB, lambda: ServerJob.from_toml(f"{text}[domain]\n{line}\n{rest}\n{target}"))
    ServerJob.from_toml(f"{text}[domain]\n{_SOUND}\n{target}")


def test_the_reference_shows_a_job_and_every_option(tmp_path) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/jobs.md").read_text()
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml())
    (tmp_path / "job.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert ServerJob.load(tmp_path / "job.toml").uploads == ("north-1", "south-1")
    trees, _, others = page.partition("## The tables [plan] of numbers and of boosting")
    for name, text in (
        ("hidden-tree", trees),
        ("hidden-regression", others),
        ("hidden-boosting", others),
    ):
        for option in SERVER_PROTOCOLS[name].options_type.model_fields:
            assert f"`{option}`" in text


def test_plans_come_from_public_numbers() -> None:
    plan = make_job().make_plan()
    assert (plan.capacity, plan.depth, plan.n_classes) == (100, 2, 2)
    assert make_job(plan={"max_depth": "auto", "epsilon": 8.0}).make_plan().depth >= 1
    refuses(
        Code.MISSING_CAPACITY,
        lambda: make_job(
            plan={"capacity": None}, domain=DOMAIN.model_copy(update={"capacity": None}).to_dict()
        ).make_plan(),
    )
    refuses(Code.BAD_PARAMETER, lambda: make_job(plan={"max_depth": 60}).make_plan())
    job = make_job()
    assert job.make_plan() is job.make_plan()


def test_levels_are_those_of_all_rounds() -> None:
    assert make_job().levels == 2
    assert make_job(**JOBS["hidden-boosting"]).levels == 3 * 2
    assert make_job(**JOBS["hidden-regression"]).levels == 2


def test_costs_and_uploads_of_a_job() -> None:
    job = make_job()
    assert job.costs()["analyst"].epsilon == pytest.approx(1.0)
    uploads = job.uploads_for([make_manifest("south-1", 40), make_manifest("north-1", 50)])
    assert [(u.party, u.first, u.rows) for u in uploads] == [(3, 0, 50), (4, 50, 40), (5, 90, 10)]
    assert json.loads(json.dumps(job.to_dict())) == job.to_dict()
