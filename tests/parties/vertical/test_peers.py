"""Pivot between processes: the tree of one process, charged once at a peer, and asked by peers."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.client import RemoteModel
from hedgerow.parties.roles.numbers import RUN_ATTEMPT, RUN_LEVEL, RUN_STAGE, party_numbers
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.reports import RunReport
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.meters import read_meter
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.peer_part import read_state
from hedgerow.parties.wire.handlers import Caller, Incoming, declared_verbs
from hedgerow.protocols.pivot.peer_plan import INSTANCES
from hedgerow.protocols.pivot.run import ask_peers
from hedgerow.protocols.registry import PEER_PROTOCOLS
from hedgerow.protocols.vertical_id3.align import check_enough
from hedgerow.reports.page import write_report
from hedgerow.reports.party import facts_of_party
from hedgerow.secure.ring import Z64
from hedgerow.trees import read_model
from hedgerow.trees.forest import Forest
from tests.parties.towns import json_of, set_line
from tests.parties.vertical.peer_towns import (
    PEERS,
    PLACES,
    PeerTown,
    aligned,
    charged,
    job_dict,
    make_job,
    run_here,
)
from tests.protocols.vertical_id3.ppid3_runs import DAYS, WEATHER, weather
from tests.reports.pages import check_pages, text_of


@pytest.mark.parametrize(
    ("hide", "align"),
    [
        # In a ring and opened it is compared everywhere: tests/everywhere.
        pytest.param("nothing", "ring", marks=pytest.mark.slow),
        ("thresholds", "hidden"),
        pytest.param("thresholds", "ring", marks=pytest.mark.slow),
        pytest.param("features", "ring", marks=pytest.mark.slow),
        pytest.param("peers", "ring", marks=pytest.mark.slow),
        pytest.param("nothing", "hidden", marks=pytest.mark.slow),
    ],
)
def test_the_tree_is_that_of_one_process_and_peers_ask_it(
    tmp_path: Path, hide: str, align: str
) -> None:
    town = PeerTown(tmp_path, queries_per_model=9, queries_per_analyst=8)
    try:
        town.start()
        job = make_job(plan={"max_depth": 2, "hide": hide}, align=align)
        run = town.post(job, "wren")
        town.until_state(run, "done")
        expected = town.check_tree(job)
        for name in PEERS:
            (balance,) = balances_in(town.parties[name].folder)
            assert [c.key for c in balance.spent.charges] == [job.account_key], name
            assert math.isinf(balance.spent.epsilon)
        # How much was sent says how many rows they have in common.
        for told in town.client("wren").show(run).values():
            assert told.progress.event == "done"
            assert told.progress.bytes is told.progress.rounds is None
        given = ["--id", 1, "--id", 9, "--id", 3]
        asked = json_of(town.command("rook", "query", "tennis", *given, "--format", "json"))
        plan, table = aligned(job), weather()
        bins = {j: table.bins[[0, 8, 2], j] for j in range(4)}
        index = ask_peers(plan, expected.model, bins, 3, charged(plan))
        assert [row["class"] for row in asked["rows"]] == [
            plan.domain.target.classes[i] for i in index
        ]
        check_refusals(town, align)
        shown = json_of(town.command("rook", "models", "show", "tennis", "--format", "json"))
        rows = 3 if align == "ring" else 5
        assert {row["analyst"]: row["asked"] for row in shown["asking"]} == {"rook": rows}
        assert {row["audience"] for row in shown["learned"]} >= {"peer", "public"}
        opened = {row["name"]: row["opened"] for row in shown["opened"]}
        assert opened["leaves of level 0"] == 1
        # Which rows are common the peers learn in a ring alone.
        assert ("which own ids all have" in opened) == (align == "ring")
        assert ("leaves" in opened) == (hide == "nothing")
    finally:
        town.stop()


@pytest.mark.parametrize("hide", ["weights", pytest.param("nothing", marks=pytest.mark.slow)])
def test_weights_are_those_of_one_process_and_peers_ask_for_probabilities(
    tmp_path: Path, hide: str
) -> None:
    town = PeerTown(tmp_path, queries_per_model=9, queries_per_analyst=8)
    try:
        town.start()
        plan: dict[str, Any] = {"max_iter": 3, "learning_rate": 1.0, "hide": hide}
        job = make_job(protocol="pivot-logistic", plan=plan)
        run = town.post(job, "wren")
        town.until_state(run, "done")
        here, kept = run_here(job), [read_state(town.stored(name, job)) for name in PEERS]
        if hide == "weights":
            total = sum(one["weights"] for one in kept)
            whole, expected = here.model.to_state()["weights"].sum(axis=0), Z64.signed(total[0])
            assert len({one["weights"].tobytes() for one in kept}) == len(PEERS)
            found = Z64.signed(whole)
        else:
            assert len({one["opened"].tobytes() for one in kept}) == 1
            found, expected = here.model.to_state()["opened"], kept[0]["opened"]
        # Rounded at random, by a unit in the last place of probabilities in every batch.
        unit = 2.0 ** kept[0]["bits"][0]
        np.testing.assert_allclose(found / unit, expected / unit, rtol=0, atol=0.05)
        given = ["--id", 1, "--id", 9, "--format", "json"]
        asked = json_of(town.command("rook", "query", "tennis", *given, "--proba"))["rows"]
        classes = json_of(town.command("rook", "query", "tennis", *given))["rows"]
        assert [row["class"] for row in asked] == [row["class"] for row in classes]
        for name in PEERS:
            with open_store(town.parties[name].state).snapshot() as made:
                kinds = [one["what"] for one in made.each("questions", model="tennis")]
            assert sorted(kinds) == ["class", "probabilities"]
        plan_here, bins = aligned(job), {j: weather().bins[[0, 8], j] for j in range(4)}
        chances = ask_peers(plan_here, here.model, bins, 2, charged(plan_here), proba=True)
        for row, expected_row in zip(asked, chances, strict=True):
            shown = [value for key, value in row.items() if key not in ("id", "class")]
            np.testing.assert_allclose(shown, expected_row, rtol=0, atol=0.05)
    finally:
        town.stop()


ROUNDS = {"max_depth": 1, "n_estimators": 2, "learning_rate": 1.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "boosting": ("pivot-boosting", ROUNDS),
    "boosting-hidden": ("pivot-boosting", ROUNDS | {"hide": "everything"}),
    "forest": ("pivot-forest", {"max_depth": 2, "n_estimators": 3}),
    "forest-hidden": ("pivot-forest", {"max_depth": 2, "n_estimators": 3, "hide": "thresholds"}),
    "logistic": ("pivot-logistic", {"max_iter": 3, "learning_rate": 1.0}),
    "tree": ("pivot-tree", {"max_depth": 2}),
}


@pytest.mark.parametrize(
    "names",
    [
        ("forest-hidden", "boosting"),
        pytest.param(("boosting-hidden", "forest", "logistic", "tree"), marks=pytest.mark.slow),
    ],
)
def test_models_are_asked_and_those_that_peers_see_are_fetched(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    town = PeerTown(tmp_path)
    days = [word for day in range(1, len(DAYS) + 1) for word in ("--id", day)]
    rows, labels = weather().bins, np.array(WEATHER.target.classes)
    try:
        town.start()
        for name in names:
            protocol, plan = MODELS[name]
            job = make_job(name=name, protocol=protocol, plan=plan)
            town.until_state(town.post(job, "wren"), "done")
            here, local = run_here(job), aligned(job)
            asked = json_of(town.command("rook", "query", name, *days, "--format", "json"))["rows"]
            told = [row["class"] for row in asked]
            bins = {j: rows[:, j] for j in range(4)}
            index = ask_peers(local, here.model, bins, len(DAYS), charged(local))
            assert told == labels[index].tolist()
            file = tmp_path / f"{name}.json"
            fetched = town.command("rook", "models", "fetch", name, "--out", file)
            if name.endswith("hidden"):
                assert Code.BAD_PARAMETER.number in fetched.stderr
                said = "which nobody sees: it lies in pieces with heron, rook, wren"
                assert said in " ".join(fetched.stderr.split())
                continue
            assert fetched.returncode == 0, fetched.stderr
            model, privacy = read_model(file)
            assert privacy == json.loads(town.stored("heron", job).ledger)
            expected = PEER_PROTOCOLS[protocol].opened(local, here.model)
            # Weights and values of leaves are rounded at random, by one unit in the last place.
            off = {"logistic": 0.05, "boosting": 0.002}.get(name, 0)
            chances, those = model.distribution(rows), expected.distribution(rows)
            np.testing.assert_allclose(chances, those, rtol=0, atol=off)
            alone = model.predict_class(rows)
            if isinstance(model, Forest):
                votes = sum(np.eye(2)[tree.predict_class(rows)] for tree in model.trees)
                alone = votes.argmax(axis=1)
            assert told == labels[alone].tolist()
        check_verbs(town, file, model, privacy)
    finally:
        town.stop()


def check_verbs(town: PeerTown, file: Path, model: Any, privacy: Any) -> None:
    """What is done with a model file is done with one that was fetched."""
    rows = town.root / "rows.csv"
    lines = [",".join(map(str, day[:4])) for day in DAYS]
    rows.write_text("\n".join([",".join(WEATHER.names), *lines]) + "\n")
    told = json_of(town.command("rook", "predict", file, rows, "--format", "json"))["rows"]
    expected = [WEATHER.target.classes[i] for i in model.predict_class(weather().bins)]
    assert [row["class"] for row in told] == expected
    again = town.root / "again.json"
    exported = town.command("rook", "export", file, "--to", "json", "--out", again)
    assert exported.returncode == 0, exported.stderr
    assert read_model(again) == (model, None)
    shown = json_of(town.command("rook", "ledger", file, "--format", "json"))
    assert shown["ledger"] == privacy


def test_who_took_no_part_is_told_nothing_of_what_peers_see(tmp_path: Path) -> None:
    town = PeerTown(tmp_path)
    try:
        town.start()
        two = job_dict()["columns"]
        del two["wren"]
        domain = WEATHER.select([0, 2, 3], target=True).to_dict()
        job = make_job(peers=["heron", "rook"], columns=two, domain=domain)
        town.until_state(town.post(job, "rook"), "done", "heron")
        fetched = town.command("heron", "models", "fetch", "tennis")
        assert fetched.returncode == 0, fetched.stderr
        assert json.loads(fetched.stdout)["type"] == "tree"
        refused = town.command("wren", "models", "fetch", "tennis")
        assert Code.BAD_PARAMETER.number in refused.stderr
        said = " ".join(refused.stderr.split())
        assert "heron, rook see what there is to see, and nobody else" in said
        # It answers nobody's rows as a whole: those who hold columns ask it by ids.
        with pytest.raises(HedgerowError, match="lies in pieces with those who hold columns"):
            RemoteModel(town.parties["wren"], "tennis")
    finally:
        town.stop()


def test_a_tree_with_noise_costs_what_its_job_says(tmp_path: Path) -> None:
    """Where nobody learns which rows are common; a ring shows that, whatever noise follows."""
    town = PeerTown(tmp_path, populations={"days": 1.5}, allow_exact=False)
    try:
        town.start()
        noisy = {"noise": "splits+leaves", "epsilon": 1.0, "max_depth": 2, "stop_share": 0.2}
        with pytest.raises(HedgerowError) as caught:
            town.post(make_job(name="seen", plan=noisy), "wren")
        assert caught.value.code is Code.POLICY_REFUSES
        job = make_job(plan=noisy, align="hidden")
        run = town.post(job, "wren")
        town.until_state(run, "done")
        for name in PEERS:
            (balance,) = balances_in(town.parties[name].folder)
            assert [c.key for c in balance.spent.charges] == [job.account_key], name
            assert balance.spent.epsilon == pytest.approx(1.0)
        shown = json_of(town.command("rook", "models", "show", "tennis", "--format", "json"))
        opened = {row["name"]: row["opened"] for row in shown["opened"]}
        assert opened["leaves of level 0"] == opened["leaves"] == 1
        again = make_job(name="again", plan=noisy, align="hidden")
        with pytest.raises(HedgerowError) as caught:
            town.post(again, "wren")
        assert "days.epsilon = 1.5" in str(caught.value)
    finally:
        town.stop()


def test_answers_of_a_tree_with_noise_are_exact_and_charged_as_that(tmp_path: Path) -> None:
    """No epsilon covers the attributes of the instance, so each peer has to allow it."""
    town = PeerTown(tmp_path, populations={"days": 1.5}, allow_exact=False)
    question = ("query", "tennis", "--id", 1, "--format", "json")
    # No row is refused, neither in training nor when it is asked about.
    for site, lines in (("club", "98,rainy\n,sunny,yes\n55,sunny,\n"), ("office", "2,warm\n")):
        with (tmp_path / f"{site}.csv").open("a") as file:
            file.write(lines)
    try:
        town.start()
        noisy = {"noise": "splits+leaves", "epsilon": 1.0, "max_depth": 1}
        job = make_job(plan=noisy, align="hidden")
        town.until_state(town.post(job, "wren"), "done")
        seen = {name: owner_only(town, name, job) for name in PEERS}
        counts = ("rows without an id of their own", "rows without a target", "broken lines")
        assert [seen["heron"][what] for what in counts] == [1, 1, 1]
        assert [seen["wren"][what] for what in counts] == [2, 0, 0]
        told = json_of(town.command("rook", "plan", town.write(job), "--format", "json"))
        assert told["costs"]["public"]["epsilon"] == pytest.approx(1.0)
        assert told["answer_costs"] == {"peer": {"epsilon": "inf", "delta": 0.0}}
        # The asker's own policy, then that of the others.
        for allowing in ((), ("rook",)):
            for name in allowing:
                allow_exact(town, name)
            town.restart()
            refused = town.command("rook", *question)
            assert Code.POLICY_REFUSES.number in refused.stderr, refused.stderr
            assert "allow_exact = false" in refused.stderr
        for name in ("heron", "wren"):
            (balance,) = balances_in(town.parties[name].folder)
            assert balance.spent.epsilon == pytest.approx(1.0), name
            allow_exact(town, name)
        town.restart()
        for _ in range(2):
            asked = json_of(town.command("rook", *question))
            assert asked["rows"][0]["class"] in WEATHER.target.classes
        for name in PEERS:
            (balance,) = balances_in(town.parties[name].folder)
            last = balance.spent.charges[-1]
            assert (last.what, last.epsilon) == ("answers of tennis", math.inf), name
            assert len(balance.spent.charges) == 2
            ledger = DurableLedger(open_store(town.parties[name].state), job.run_id)
            # Who asked is charged, once; all others have learned what the model says.
            assert [one.audience for one in ledger.releases if math.isinf(one.epsilon)] == [
                "peer 1"
            ]
            assert ledger.total("peer 2").epsilon == pytest.approx(1.0)
            key = operator_key(town.parties[name].folder)
            kept = town.model(name, "tennis", key).read_ledger()
            assert f"at most {job.make_plan().capacity} rows" in kept.condition
        shown = json_of(town.command("wren", "models", "show", "tennis", "--format", "json"))
        learned = {row["audience"]: row for row in shown["learned"]}
        assert learned["peer 1"]["epsilon"] == "inf"
        assert INSTANCES in learned["peer 1"]["why"]
    finally:
        town.stop()


def owner_only(town: PeerTown, name: str, job: PivotJob) -> dict[str, Any]:
    """Read what a run has done to rows of a peer, for its own eyes."""
    path = town.parties[name].state.path("runs", job.run_id, "owner-only.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def allow_exact(town: PeerTown, name: str) -> None:
    path = town.parties[name].folder / "policy.toml"
    set_line(path, "allow_exact", "true")
    set_line(path, "days", "inf")


def check_refusals(town: PeerTown, align: str) -> None:
    """An instance that not all have; more than the policy allows; what peers do not answer."""
    if align == "hidden":
        # Nobody learns that it is not there: neither of one that nobody has, nor of no number.
        given = ["--id", 98, "--id", "nobody", "--format", "json"]
        asked = json_of(town.command("rook", "query", "tennis", *given))
        assert {row["class"] for row in asked["rows"]} <= set(WEATHER.target.classes)
    for more, code in (
        *([(["--id", 98], Code.IDS_DO_NOT_ALIGN)] if align == "ring" else []),
        (["--id", 1, "--proba"], Code.BAD_PARAMETER),
        (["--kept"], Code.BAD_PARAMETER),
        ([word for day in range(1, 10) for word in ("--id", day)], Code.POLICY_REFUSES),
    ):
        refused = town.command("rook", "query", "tennis", *more)
        assert code.number in refused.stderr, refused.stderr


def test_a_peer_of_another_version_is_refused_with_its_number(tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    (later / "sitecustomize.py").write_text(
        "from hedgerow.parties.vertical import peer_part\npeer_part.VERSION += 1\n"
    )
    town = PeerTown(tmp_path)
    try:
        town.start("heron", "rook")
        paths = [str(later), *filter(None, [os.environ.get("PYTHONPATH")])]
        town.start("wren", PYTHONPATH=os.pathsep.join(paths))
        run = town.post(make_job(), "rook")
        town.until_state(run, "failed")
        for name, error in town.errors(run).items():
            assert Code.WRONG_VERSION.number in error, (name, error)
        # Nobody has said anything about its rows.
        for name in PEERS:
            meter = read_meter(open_store(town.parties[name].state), run)
            assert meter is not None
            assert set(meter.steps) <= {"stages", "version of Pivot", "farewell"}
    finally:
        town.stop()


def test_numbers_that_follow_from_rows_are_for_those_who_take_part(tmp_path: Path) -> None:
    """How many rows are common stands in an error, and follows from how long a run takes."""
    town = PeerTown(tmp_path, peers=(*PEERS, "finch"), analysts=("zoe",))
    config, job = town.parties["rook"], make_job(least_records=15)
    made = RunManager(config, Policy.load(config.folder), None)
    run = made.store.accept(job, "finch")
    with pytest.raises(HedgerowError) as caught:
        check_enough(14, 15)
    made.store.change(run, "failed", error=caught.value)
    made._watch(run).progress = {"event": "level", "level": 1, "nodes": 3, "seconds": 7.25}
    verbs = declared_verbs(RunVerbs(made))

    def told(verb: str, caller: Caller, payload: bytes = b"", **fields: Any) -> Any:
        model = verbs[verb].fields.model_validate(fields)
        incoming = Incoming(len(payload), lambda: payload)
        return verbs[verb].function(caller, model, incoming)[0]

    finch, zoe = Caller("finch", "peer"), Caller("zoe", "analyst")
    for name in PEERS:
        whole = told("run-show", Caller(name, "peer"), run=run.id)
        assert whole["error"]["found"] == "14"
        assert whole["progress"]["seconds"] == 7.25
    heard = [
        *(told("run-show", caller, run=run.id) for caller in (finch, zoe)),
        *told("runs", zoe)["runs"],
        told("job", finch, job.to_toml().encode()),
    ]
    heard.append(told("run-resume", finch, run=run.id, generation=1))
    made._watch(run).progress = {"event": "level", "level": 1, "number": 2, "seconds": 7.25}
    numbers = [sample.metric for sample in party_numbers(config, made)]
    assert RUN_ATTEMPT in numbers
    assert not {RUN_LEVEL, RUN_STAGE} & set(numbers)
    heard.append(told("run-stop", finch, run=run.id, generation=1))
    for said in heard:
        text = json.dumps({key: value for key, value in said.items() if key != "created"})
        assert "7.25" not in text
        assert '"14"' not in text
        assert '"nodes": 3' not in text
        # When it has ended would say how long it took.
        assert "changed" not in said
    for said in heard[:2]:
        assert RunReport.model_validate(said).error["code"] == Code.IDS_DO_NOT_ALIGN.name
        assert said["state"] == "failed"
    made.stop()


def test_rows_that_make_no_tree_end_a_run_with_a_number(tmp_path: Path) -> None:
    town = PeerTown(tmp_path, populations=dict.fromkeys(("days", "nights", "noons"), math.inf))
    try:
        text = (tmp_path / "office.csv").read_text()
        header, *lines = text.splitlines()
        name_table(town, "nights", "\n".join([header, *(f"9{line}" for line in lines)]))
        name_table(town, "noons", text.replace("mild", "warm"))
        town.start()
        small = WEATHER.model_copy(update={"capacity": 13}).to_dict()
        for name, changes, code, words in (
            ("apart", {"population": "nights"}, Code.IDS_DO_NOT_ALIGN, "no id that all"),
            ("few", {"least_records": 15}, Code.IDS_DO_NOT_ALIGN, "Found: 14"),
            ("small", {"domain": small}, Code.CAPACITY_EXCEEDED, "at most 13 rows"),
            ("warm", {"population": "noons"}, Code.UNKNOWN_CATEGORY, "at wren says which"),
        ):
            run = town.post(make_job(name=name, **changes), "wren")
            town.until(lambda run=run: "failed" in town.states(run).values(), f"{name} to fail")
            said = " ".join(town.errors(run).values())
            assert code.number in said, (name, said)
            assert words in said, (name, said)
            # What the others may not know, they are not told.
            assert "warm'" not in said
            town.until_state(run, "failed", "heron")
            page = write_report(
                facts_of_party(town.parties["heron"], run), tmp_path / f"{name}.html"
            )
            text = text_of(page.read_text())
            assert "run failed" in text
            assert code.number in text
            assert "The account of" in text
            assert "warm'" not in text
    finally:
        town.stop()
    check_pages([page])


def name_table(town: PeerTown, population: str, office: str) -> None:
    """Have peers name tables of another population, in which one has these rows."""
    path = town.root / f"{population}.csv"
    path.write_text(office)
    for name, site in PLACES.items():
        table = path if site == "office" else town.root / f"{site}.csv"
        keep_own_table(town.parties[name].state, OwnTable(population, table, "id"))
