"""Evaluations on three servers that are processes, against the estimator on the same rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hedgerow
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.evaluation.client import Evaluator
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.evaluation.part import read_half
from hedgerow.parties.roles.client import Consortium
from hedgerow.parties.roles.server_reports import ModelClient
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.jobs import ServerJob, load_job, read_job
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.wire.client import MembersClient, Reply
from hedgerow.privacy import Ledger
from hedgerow.reports.page import report_page, write_report
from hedgerow.reports.party import facts_of_party
from hedgerow.tables import Attribute, Domain
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, people, write_csv
from tests.parties.runs.run_servers import job as server_job
from tests.parties.towns import Town
from tests.parties.wire.parties_calls import refuses
from tests.reports.pages import check_pages

PLAN = {"noise": "none", "max_depth": 3}
_AGE = Attribute(name="age", kind="numeric", bounds=(0, 90), bins=5)
OTHER = DOMAIN.model_copy(update={"attributes": (_AGE, *DOMAIN.attributes[1:])})


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    root = tmp_path_factory.mktemp("town")
    made = Town(
        root,
        servers=SERVERS,
        owners=("north", "south"),
        analysts=("zoe", "ann"),
        populations={"patients": float("inf"), "guests": float("inf"), "few": 0.25},
        allowed_protocols=("hidden-tree", "evaluation"),
        allowed_posters=("north", "south", "zoe"),
        allow_exact=True,
        step=20.0,
    )
    try:
        made.start(*SERVERS)
        upload(made, "north", "north-1", "patients", people(100))
        upload(made, "south", "south-1", "guests", people(80, seed=3))
        upload(made, "north", "north-2", "few", people(40, seed=4))
        train(made, server_job("ward", plan=PLAN))
        yield made
    finally:
        made.stop()


def upload(
    town: Town, owner: str, id: str, population: str, table: pa.Table, domain: Domain = DOMAIN
) -> None:
    path = write_csv(town.root / f"{id}.csv", table)
    share_upload(town.parties[owner], path, domain, id=id, population=population)


def train(town: Town, job: ServerJob) -> None:
    town.until_state(town.post(job, "north"), "done", *SERVERS)


def estimated() -> Any:
    """Return the estimator of the model, and held-out rows and classes."""
    rows, held = people(100).to_pandas(), people(80, seed=3).to_pandas()
    names = list(DOMAIN.names)
    model = hedgerow.HiddenTreeClassifier(domain=DOMAIN, engine="clear", **PLAN)
    model.fit(rows[names], rows["ill"])
    return model, held[names], held["ill"]


def spent(town: Town, name: str, population: str) -> list[Any]:
    config = town.parties[name]
    return Accounts(config.state, Policy.load(config.folder)).spent(population).charges


def test_the_table_is_that_of_the_estimator(town: Town) -> None:
    model, rows, classes = estimated()
    zoe = Consortium(town.parties["zoe"].folder)
    found = zoe.evaluate("ward-model", "south-1", None, progress=False)
    expected = model.evaluate(rows, classes, epsilon=None)
    np.testing.assert_array_equal(found.table, expected.table)
    assert found.to_dict() == expected.to_dict()
    assert found.accuracy == np.mean(model.predict(rows) == classes)
    assert found.privacy.total("analyst").epsilon == np.inf


def test_noise_is_charged_once_and_the_table_is_drawn_once(town: Town, tmp_path: Path) -> None:
    evaluator = Evaluator(town.parties["zoe"])
    job = evaluator.propose("ward-model", ["south-1"], 0.5)
    before = {name: len(spent(town, name, "guests")) for name in SERVERS}
    run = evaluator.post(job)
    # Whoever falls over, and whenever: the others wait, and nothing is drawn a second time.
    town.kill("birch")
    town.start("birch")
    town.until_state(run, "done", *SERVERS)
    found = evaluator.fetch(job)
    assert evaluator.post(job) == run
    np.testing.assert_array_equal(evaluator.fetch(job).table, found.table)
    plan = job.make_plan()
    assert [entry.release for entry in found.privacy.entries] == list(plan.releases())
    assert found.privacy.total("analyst").epsilon == 0.5
    assert found.privacy.total("public").epsilon == 0
    draws, trained = set(), [server_job("ward", plan=PLAN).account_key]
    for number, name in enumerate(SERVERS):
        (charge,) = spent(town, name, "guests")[before[name] :]
        assert (charge.key, charge.epsilon) == (job.account_key, 0.5)
        assert [charge.key for charge in spent(town, name, "patients")] == trained
        config = town.parties[name]
        kept = read_half(config.state, run, number, operator_key(config.folder))
        draws.add(kept.draw)
        assert (kept.half is None) == (number == 2)
        assert Ledger.from_json(kept.ledger).entries == found.privacy.entries
    assert len(draws) == 1
    # Noise of epsilon 0.5 is beyond 60 once in 10^13 cells.
    exact = Consortium(town.parties["zoe"].folder).evaluate(
        "ward-model", ["south-1"], None, progress=False
    )
    assert np.abs(found.table - exact.table).max() < 60
    # The analyst's page has both; owners of the rows and servers are not told.
    facts = facts_of_party(town.parties["zoe"], "ward-model")
    told = {one.cost.epsilon: one for one in facts.accuracies if one.cost is not None}
    assert told[0.5].accuracy == found.accuracy
    assert told[np.inf].confusion == tuple(map(tuple, exact.confusion.tolist()))
    assert f">{found.accuracy:.3f}</span><p>On south-1, held out</p>" in report_page(facts)
    evaluated = facts_of_party(town.parties["zoe"], run)
    assert evaluated.accuracies == (told[0.5],)
    pages = [
        write_report(known, tmp_path / f"{view}.html")
        for view, known in (("model", facts), ("evaluation", evaluated))
    ]
    for name in ("north", "alder"):
        assert not facts_of_party(town.parties[name], "ward-model").accuracies
        assert not facts_of_party(town.parties[name], run).accuracies
    refuses(Code.CALLER_NOT_ALLOWED, lambda: RunClient(town.parties["ann"]).job(run))
    assert RunClient(town.parties["south"]).job(run).hash == job.hash
    check_pages(pages)


@pytest.mark.parametrize(
    "odd",
    [
        {"runs": [{"run": 5}], "progress": 5},
        {"runs": [5], "state": "\x1b[2J"},
        {"runs": None, "waiting_for": [1], "created": 1e300},
    ],
)
def test_one_odd_member_keeps_no_page_from_being_made(
    odd: dict[str, Any], town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, (model, *_) = MembersClient._ask_all, ModelClient(town.parties["zoe"]).list()[0]

    def spoiled(self: MembersClient, *arguments: Any) -> Any:
        return {
            name: Reply(reply.fields | odd, b"not JSON") if name == "alder" else reply
            for name, reply in ask(self, *arguments).items()
        }

    monkeypatch.setattr(MembersClient, "_ask_all", spoiled)
    facts = facts_of_party(town.parties["north"], model.line.run)
    assert any("alder" in note for note in facts.notes)
    assert {c for c in report_page(facts) if not c.isprintable()} == {"\n"}
    # A table in shares takes what all servers have.
    for length in ([], "x", -1, None):
        odd["ledger"] = length
        refuses(
            Code.BAD_REPLY, lambda: facts_of_party(town.parties["zoe"], model.line.run).accuracies
        )


def test_what_the_command_prints(town: Town) -> None:
    line = ("evaluate", "ward-model", "--table", "south-1", "--epsilon", "0.5")
    text = town.command("zoe", *line)
    assert text.returncode == 0, text.stderr
    assert "ward-model on south-1 (100 slots)" in text.stdout
    assert "charged to guests at every server, once: epsilon 0.5" in text.stdout
    told = town.command("zoe", *line, "--format", "json")
    found = json.loads(told.stdout)
    assert (found["ok"], found["population"], found["tables"]) == (True, "guests", ["south-1"])
    assert found["costs"]["analyst"]["epsilon"] == 0.5
    assert f"accuracy: {found['accuracy']:.3f}" in text.stdout
    assert sum(map(sum, found["confusion"])) > 0
    both = json.loads(town.command("zoe", *line, "--exact", "--format", "json").stdout)
    assert both["error"] == "H501"
    listed = json.loads(town.command("north", "runs", "list", "--format", "json").stdout)
    assert found["run"] in [row["run"] for row in listed["rows"]]


def test_nobody_else_gets_a_half(town: Town) -> None:
    job = Evaluator(town.parties["zoe"]).propose("ward-model", ["south-1"], None)
    other = Evaluator(town.parties["ann"])
    refuses(Code.CALLER_NOT_ALLOWED, lambda: other.fetch(job))
    # The model's job names zoe alone.
    refuses(Code.CALLER_NOT_ALLOWED, lambda: other.propose("ward-model", ["south-1"], 1.0))
    for_ann = EvaluationJob.read(job.to_dict() | {"name": "ann-asks", "analysts": ["ann"]}, "it")
    refuses(Code.CALLER_NOT_ALLOWED, lambda: town.post(for_ann, "south"))
    trained = server_job("ward", plan=PLAN)
    with pytest.raises(HedgerowError) as caught:
        Evaluator(town.parties["zoe"])._replies("evaluation", {"run": trained.run_id})
    assert caught.value.code is Code.WRONG_RUN_STATE


def test_who_may_not_post_it(town: Town) -> None:
    job = Evaluator(town.parties["zoe"]).propose("ward-model", ["south-1"], 0.1, name="later")
    policy = town.parties["south"].folder / "policy.toml"
    text = policy.read_text()
    renew = ("uploads", "terms", "guests")
    try:
        policy.write_text(text.replace('"hidden-tree", "evaluation"', '"hidden-tree"'))
        assert town.command("south", *renew).returncode == 0
        # What the owner of the held-out rows allows binds the servers.
        with pytest.raises(HedgerowError) as caught:
            Evaluator(town.parties["zoe"]).post(job)
        assert caught.value.code is Code.POLICY_REFUSES
        assert "policy.toml of south" in caught.value.expected
    finally:
        policy.write_text(text)
        assert town.command("south", *renew).returncode == 0


def test_what_is_refused(town: Town) -> None:
    evaluator = Evaluator(town.parties["zoe"])

    def post(upload: str, epsilon: float = 0.2, **options: Any) -> str:
        return evaluator.post(evaluator.propose("ward-model", [upload], epsilon, **options))

    refuses(Code.UNKNOWN_UPLOAD, lambda: post("south-9"))
    refuses(Code.UNKNOWN_MODEL, lambda: evaluator.propose("no-model", ["south-1"], 0.2))
    refuses(Code.BAD_EPSILON, lambda: post("south-1", -1.0))
    refuses(Code.BAD_PARAMETER, lambda: post("south-1", ranges=3))
    refuses(Code.POLICY_REFUSES, lambda: post("north-2", 0.5))
    town.until_state(post("north-2", 0.2), "done", *SERVERS)
    # Each by itself would do; together they are beyond what the population has.
    refuses(Code.POLICY_REFUSES, lambda: post("north-2", 0.1))
    # What the model was trained on says nothing of it, and nothing is charged for it.
    before = [len(spent(town, name, "patients")) for name in SERVERS]
    refuses(Code.ROWS_NOT_HELD_OUT, lambda: post("north-1"))
    assert [len(spent(town, name, "patients")) for name in SERVERS] == before
    bare = people(20).drop_columns(["ill"])
    upload(town, "south", "south-2", "guests", bare, DOMAIN.select(DOMAIN.names, target=False))
    refuses(Code.UPLOADS_DO_NOT_FIT, lambda: post("south-2"))
    upload(town, "south", "south-3", "guests", people(20), OTHER)
    refuses(Code.UPLOADS_DO_NOT_FIT, lambda: post("south-3"))
    job = evaluator.propose("ward-model", ["south-1"], 0.2, name="other-places")
    moved = EvaluationJob.read(job.to_dict() | {"places": 8, "boundary": 4}, "it")
    refuses(Code.BAD_JOB, lambda: evaluator.post(moved))
    with pytest.raises(HedgerowError, match="H885"):
        EvaluationJob.read(job.to_dict() | {"analysts": ["zoe", "ann"]}, "it")


def test_a_job_is_read_as_it_was_written(town: Town, tmp_path: Path) -> None:
    job = Evaluator(town.parties["zoe"]).propose("ward-model", ["south-1"], 0.5)
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml())
    assert load_job(path) == read_job(job.to_toml()) == job
    assert (job.levels, job.makes_model, job.size().epsilon) == (0, False, 0.5)
    done = town.command("zoe", "plan", path, "--format", "json")
    told = json.loads(done.stdout)
    assert told["opens"] == [{"name": "table of classes and answers", "audience": "analyst"}]
    assert told["costs"]["analyst"]["epsilon"] == 0.5
