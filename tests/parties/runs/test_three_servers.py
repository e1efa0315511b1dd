"""Runs on three servers that are processes, and that are killed on the way."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.uploading import make_align_key, share_upload
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.models import open_model
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.secure.clear import ClearEngine
from hedgerow.tables import Encoded, encode, pad
from hedgerow.trees.model import model_from_json
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, write_csv
from tests.parties.runs.run_servers import Town, job, set_line, town
from tests.parties.wire.parties_calls import refuses
from tests.protocols.sharing.shared_tables import shared_queries, shared_table

QUICK = [(SERVERS[0], "daemon")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    with town(folder, rejoin=60.0) as made:
        yield made


def in_the_clear(place: Town, plan: HiddenPlan, some: slice = slice(None)) -> np.ndarray:
    """Train on plain arrays of some rows and ask about all."""
    rows = encode(place.table.drop_columns(["id"]), DOMAIN, "ill")
    engine, n = ClearEngine(Leakage([])), rows.n_slots
    uploads = horizontal_uploads(plan.layout, [plan.n_slots], 0)
    trained_on = pad(rows.rows(np.arange(n)[some]), plan.n_slots)
    table = shared_table(engine, plan.layout, plan.ring, uploads, {0: trained_on})
    forest = train_hidden(table, plan, Ledger())
    bare = Encoded(DOMAIN.select(list(range(3)), target=False), rows.bins, None, rows.present)
    queries = shared_queries(engine, plan.layout, forest.ring, bare)
    return np.asarray(predict(forest, queries).data)[:, 0, 0].astype(np.int64)


def stored(place: Town, name: str, model: str) -> Any:
    config = place.parties[name]
    return open_model(config.state, operator_key(config.folder), model)


def charges(place: Town, name: str, run: str) -> list[str]:
    config = place.parties[name]
    accounts = Accounts(config.state, Policy.load(config.folder))
    return [c.key for c in accounts.spent("patients").charges if c.what == f"run {run}"]


def check_charges(place: Town, run: str, model: str) -> None:
    """One charge in every account, the same ledger everywhere, nothing in it twice."""
    for name in SERVERS:
        assert len(charges(place, name, run)) == 1
        releases = stored(place, name, model).read_ledger().releases
        assert len(set(releases)) == len(releases)
    assert len({stored(place, name, model).ledger for name in SERVERS}) == 1


def test_a_tree_without_noise_is_that_of_the_clear(place: Town) -> None:
    proposed = job("plain", plan={"max_depth": 3})
    run = place.post(proposed)
    place.until_state(run, "done")
    expected = in_the_clear(place, proposed.make_plan())
    np.testing.assert_array_equal(place.predictions("plain-model"), expected)
    check_charges(place, run, "plain-model")
    # The same job is the same run; nothing is kept of the way when all are done.
    assert place.post(proposed) == run
    for name in SERVERS:
        shown = place.ask(name, "run-show", {"run": run}, by="zoe")
        assert (shown["state"], shown["attempt"]) == ("done", 1)
        folder = place.parties[name].folder / "state/runs" / run / "stages"
        place.until(lambda folder=folder: not list(folder.iterdir()), "stages to be forgotten")
    refuses(
        Code.WRONG_RUN_STATE, lambda: place.ask("alder", "run-stop", {"run": run, "generation": 0})
    )
    other = job("other", model="plain-model")
    refuses(Code.MODEL_EXISTS, lambda: place.post(other))


COLUMNS = {"north": ["id", "age", "ill"], "south": ["id", "ward", "sex"]}
HELD = {"north": slice(0, 50), "south": slice(35, 100)}
COMMON = slice(35, 50)


@pytest.fixture(scope="module")
def columns(place: Town, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Let two owners upload columns of people, some of whom are in both tables."""
    folder = tmp_path_factory.mktemp("columns")
    make_align_key(folder / "wards.key")
    for owner, names in COLUMNS.items():
        table = place.table.take(np.random.default_rng(len(owner)).permutation(100)[::-1])
        table = table.filter(np.isin(table.column("id"), place.table.column("id")[HELD[owner]]))
        share_upload(
            place.parties[owner],
            write_csv(folder / f"{owner}.csv", table.select(names)),
            DOMAIN,
            id=f"{owner}-columns",
            population="patients",
            slots={"north": 60, "south": 75}[owner],
            ids="id",
            align_key=folder / "wards.key",
        )
    return {"uploads": [f"{owner}-columns" for owner in COLUMNS], "partition": "vertical"}


def test_columns_of_two_owners_train_the_tree_of_the_inner_join(
    place: Town, columns: dict[str, Any]
) -> None:
    """A server is killed on the way: the join is made once, or once more as a whole."""
    plan = {"max_depth": 3, "capacity": 60}
    model = disturbed(place, "joined", "birch", "worker", plan=plan, **columns)
    expected = in_the_clear(place, job(plan=plan).make_plan(), COMMON)
    np.testing.assert_array_equal(place.predictions(model), expected)
    whole = in_the_clear(place, job(plan=plan | {"capacity": 100}).make_plan())
    assert not np.array_equal(expected, whole)


def disturbed(place: Town, name: str, victim: str, what: str, **changes: Any) -> str:
    """Run a job and kill a worker or a daemon at a moment that a seed decides; return the model."""
    for tries in range(4):
        proposed = job(f"{name}-{tries}", **changes)
        run = _disturbed(place, proposed, victim, what)
        check_charges(place, run, proposed.model)
        if place.ask("alder", "run-show", {"run": run})["attempt"] > 1:
            return proposed.model
    raise AssertionError("every run was done before it was disturbed")


def _disturbed(place: Town, proposed: ServerJob, victim: str, what: str) -> str:
    rng = random.Random(proposed.name)
    run = place.post(proposed)
    moment = rng.randrange(4)

    def reached() -> bool:
        shown = place.ask(victim, "run-show", {"run": run})
        stage = shown["progress"].get("number", -1)
        return shown["state"] == "done" or (shown["worker"] is True and stage >= moment - 1)

    place.until(reached, "a stage")
    time.sleep(rng.uniform(0, 0.1))
    if what == "worker":
        place.kill_worker(victim)
    else:
        place.kill(victim)
        time.sleep(rng.uniform(0, 1.0))
        place.start(victim)
    place.until_state(run, "done")
    return run


@pytest.mark.parametrize(
    ("victim", "what"),
    [
        pytest.param(victim, what, marks=[] if (victim, what) in QUICK else pytest.mark.slow)
        for victim in SERVERS
        for what in ("worker", "daemon")
    ],
)
def test_whoever_is_killed_the_tree_is_the_same(place: Town, victim: str, what: str) -> None:
    model = disturbed(place, f"{what}-{victim}", victim, what, plan={"max_depth": 3})
    expected = in_the_clear(place, job(plan={"max_depth": 3}).make_plan())
    np.testing.assert_array_equal(place.predictions(model), expected)


@pytest.mark.slow
def test_noise_is_charged_once_however_often_a_run_is_killed(place: Town) -> None:
    plan = {"noise": "splits+leaves", "epsilon": 1.0, "max_depth": 3}
    model = disturbed(place, "noisy", "birch", "worker", plan=plan)
    ledger = stored(place, "alder", model).read_ledger()
    assert ledger.total("analyst").epsilon == pytest.approx(1.0)
    costs = job("noisy", plan=plan).costs()
    assert ledger.total("analyst").epsilon == costs["analyst"].epsilon


def test_a_tree_that_is_opened_is_drawn_once(place: Town) -> None:
    plan = {"noise": "splits+leaves", "epsilon": 1.0, "max_depth": 3}
    name = disturbed(
        place, "open-noisy", "cedar", "worker", protocol="open-tree", analysts=(), plan=plan
    )
    trees = [stored(place, server, name) for server in SERVERS]
    assert trees[0].tree == trees[1].tree == trees[2].tree
    assert model_from_json(json.dumps(trees[0].tree)).privacy is not None
    assert trees[0].read_ledger().total("public").epsilon == pytest.approx(1.0)
    assert trees[0].shares == {}


@pytest.mark.slow
def test_a_tree_without_noise_is_opened_as_it_is_in_the_clear(place: Town) -> None:
    plain = {"noise": "none", "max_depth": 3}
    name = disturbed(
        place, "open-plain", "alder", "daemon", protocol="open-tree", analysts=(), plan=plain
    )
    tree = model_from_json(json.dumps(stored(place, "birch", name).tree)).model
    rows = encode(place.table.drop_columns(["id"]), DOMAIN, "ill")
    expected = in_the_clear(place, job(plan=plain).make_plan())
    np.testing.assert_array_equal(tree.predict_class(rows.bins), expected)


@pytest.mark.slow
def test_stopped_and_resumed(place: Town) -> None:
    proposed = job("halted", plan={"max_depth": 3})
    run = place.post(proposed)
    place.until(lambda: place.worker("birch") is not None, "a worker")
    place.ask("birch", "run-stop", {"run": run, "generation": 0})
    # The others hear of it.
    place.until_state(run, "stopped")
    assert all(place.worker(name) is None for name in SERVERS)
    for name in SERVERS:
        place.ask(name, "run-resume", {"run": run, "generation": 1})
    place.until_state(run, "done")
    check_charges(place, run, "halted-model")


@pytest.mark.slow
def test_one_run_after_the_other(place: Town) -> None:
    runs = [place.post(job(f"queued-{i}", plan={"max_depth": 1})) for i in range(2)]
    for run in runs:
        place.until_state(run, "done")
    changed = [place.ask("alder", "run-show", {"run": run}) for run in runs]
    assert [shown["attempt"] for shown in changed] == [1, 1]


def test_who_may_say_what(place: Town) -> None:
    run = place.post(job("led"), "birch")
    fields = {
        "run": run,
        "hash": job("led").hash,
        "attempt": 1,
        "session": "00" * 16,
        "members": list(SERVERS),
        "trail": {"height": 0, "hash": ""},
    }
    asked = {key: fields[key] for key in ("run", "hash", "trail")}
    for by in ("north", "cedar"):
        refuses(Code.CALLER_NOT_ALLOWED, lambda by=by: place.ask("birch", "run-go", fields, by=by))
    refuses(Code.CALLER_NOT_ALLOWED, lambda: place.ask("birch", "run-ready", asked, by="north"))
    place.ask("birch", "run-ready", asked, by="cedar")
    place.ask("birch", "run-stop", {"run": run, "generation": 0})
    unsigned = job("unsigned").to_toml().encode()
    refuses(Code.NOT_SIGNED, lambda: place.ask("birch", "job", {}, unsigned, by="alder"))
    unknown = fields | {"run": "nobody-1"}
    refuses(Code.UNKNOWN_RUN, lambda: place.ask("birch", "run-go", unknown, by="alder"))
    bad = fields | {"session": "../x"}
    refuses(Code.BAD_REQUEST, lambda: place.ask("birch", "run-go", bad, by="alder"))
    refuses(Code.UNKNOWN_RUN, lambda: place.ask("birch", "run-show", {"run": "nobody-1"}))
    refuses(Code.BAD_NAME, lambda: place.ask("birch", "run-show", {"run": "../../etc"}))
    refuses(Code.BAD_JOB, lambda: place.ask("birch", "job", {}, b"\xff\xfe"))


def test_what_a_policy_does_not_allow_is_not_kept(place: Town) -> None:
    plan = {"noise": "splits+leaves", "epsilon": 1.5}
    dear = job("dear", plan=plan)
    error = refuses(Code.POLICY_REFUSES, lambda: place.post(dear))
    assert "largest_epsilon_per_job" in error.expected
    foreign = job("foreign", uploads=("nobody-1",))
    refuses(Code.UNKNOWN_UPLOAD, lambda: place.post(foreign))
    known = {run["run"] for run in place.ask("alder", "runs")["runs"]}
    assert not {dear.run_id, foreign.run_id} & known


@pytest.mark.long
def test_jobs_that_differ_and_servers_that_do_not_come_back(tmp_path: Path) -> None:
    with town(tmp_path, rejoin=6.0, step=10.0) as place:
        plan = {"noise": "splits+leaves", "epsilon": 1.0, "max_depth": 2}
        one = job("differ", plan=plan)
        two = job("differ", plan=plan | {"epsilon": 0.9})
        place.post(one, "alder", "birch")
        place.post(two, "cedar")
        place.until_state(one.run_id, "failed", "alder", "birch")
        shown = place.ask("alder", "run-show", {"run": one.run_id})
        assert shown["attempt"] == 0
        assert shown["error"]["code"] == "JOBS_DIFFER"
        assert one.hash in str(shown["error"])
        assert two.hash in str(shown["error"])
        place.until_state(two.run_id, "failed", "cedar")
        assert charges(place, "alder", one.run_id) == []

        lost = job("lost", plan={"max_depth": 3})
        run = place.post(lost)
        place.until(lambda: place.worker("cedar") is not None, "a worker")
        place.kill("cedar")
        place.until_state(run, "failed", "alder", "birch")
        for name in ("alder", "birch"):
            error = place.ask(name, "run-show", {"run": run})["error"]
            assert error["code"] == "SERVER_MISSING"
            assert "cedar" in error["expected"]
        # Whoever comes back later hears that it is over, until all are told to go on.
        place.start("cedar")
        place.until_state(run, "failed")
        # A loaded machine may need longer than that to start three workers.
        place.stop()
        place.set_timeouts(rejoin=60.0)
        place.start()
        for name in SERVERS:
            place.ask(name, "run-resume", {"run": run, "generation": 1})
        place.until_state(run, "done")
        check_charges(place, run, "lost-model")
        expected = in_the_clear(place, lost.make_plan())
        np.testing.assert_array_equal(place.predictions("lost-model"), expected)

        # A policy that was tightened meanwhile counts.
        strict = job("strict", plan=plan)
        place.post(strict, "birch")
        place.kill("birch")
        policy = place.parties["birch"].folder / "policy.toml"
        set_line(policy, "largest_epsilon_per_job", "0.5")
        place.start("birch")
        # Last, however long the start has taken: now the others begin to wait for each other.
        place.post(strict, "alder", "cedar")
        place.until_state(strict.run_id, "failed")
        assert place.errors(strict.run_id)[0]["code"] == "POLICY_REFUSES"
        assert charges(place, "birch", strict.run_id) == []


def test_set_line_sets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("a = 1\nb = 2\n")
    set_line(path, "a", "3")
    assert path.read_text() == "a = 3\nb = 2\n"
