"""``hedgerow models``, as members type it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.database import open_store
from tests.parties.queries.answer_towns import SERVERS, Town, table

runner = CliRunner()
ROWS = 5


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    town = Town(tmp_path_factory.mktemp("models"), 2, queries_per_analyst=30, queries_per_model=50)
    town.train("both")
    town.train("noisy", analysts=["ann1"], noise="splits+leaves", epsilon=2.0)
    with town.open():
        town.analyst(0).ask("both", table(ROWS)[0])
        yield town


def run(town: Town, by: str, *arguments: str, code: int = 0) -> str:
    line = ["models", *arguments, str(town.configs[by].folder)]
    result = runner.invoke(app, line, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def told(town: Town, by: str, *arguments: str, code: int = 0) -> dict:
    return json.loads(run(town, by, *arguments, "--format", "json", code=code))


def test_the_list_has_what_the_asker_may_see(town: Town) -> None:
    found = told(town, "north", "list")
    assert (found["ok"], found["refused"]) == (True, {})
    assert [row["model"] for row in found["rows"]] == ["both", "noisy"]
    first = found["rows"][0]
    assert first["analysts"] == ["ann0", "ann1"]
    assert (first["protocol"], first["run"]) == ("hidden-tree", "both-run")
    assert first["servers"] == dict.fromkeys(SERVERS, "kept")
    assert [row["model"] for row in told(town, "ann0", "list")["rows"]] == ["both"]
    # A server asks the other two.
    assert set(told(town, "birch", "list")["rows"][0]["servers"]) == {"alder", "cedar"}
    assert "noisy" in run(town, "ann1", "list")


def test_one_model_for_an_owner_and_for_an_analyst(town: Town) -> None:
    owner, analyst = told(town, "north", "show", "both"), told(town, "ann1", "show", "both")
    assert owner["ok"]
    assert owner["asking"] == [
        {"analyst": "ann0", "asked": ROWS, "left": 30 - ROWS},
        {"analyst": "ann1", "asked": 0, "left": 30},
    ]
    assert owner["rows_left"] == 50 - ROWS
    # How much the others have asked is not for an analyst.
    assert analyst["asking"] == owner["asking"][1:]
    assert analyst["rows_left"] is None
    same = set(owner) - {"asking", "rows_left"}
    assert {key: owner[key] for key in same} == {key: analyst[key] for key in same}
    totals = {row["audience"]: row["epsilon"] for row in owner["learned"]}
    assert totals["analyst"] == "inf"
    assert all(row["opened"] <= row["declared"] for row in owner["opened"])
    text = run(town, "north", "show", "both")
    assert "may be asked by: ann0, ann1" in text


def test_what_is_published_is_fetched_by_any_member(town: Town, tmp_path: Path) -> None:
    made = town.publish("shown")
    for name in ("north", "ann0"):
        assert json.loads(run(town, name, "fetch", "shown")) == made
    out = tmp_path / "shown.json"
    line = ["models", "fetch", "shown", str(town.configs["north"].folder), "--out", str(out)]
    assert runner.invoke(app, line, catch_exceptions=False).exit_code == 0
    assert json.loads(out.read_text()) == made
    assert "published to everybody" in run(town, "north", "show", "shown")


def test_what_is_hidden_cannot_be_fetched(town: Town) -> None:
    line = ["models", "fetch", "both", str(town.configs["north"].folder)]
    with pytest.raises(HedgerowError) as caught:
        runner.invoke(app, line, catch_exceptions=False)
    assert caught.value.code is Code.BAD_PARAMETER


def test_the_epsilon_of_every_audience(town: Town) -> None:
    shown = told(town, "north", "show", "noisy")
    ledger = town.up[0][1].library.book("noisy").ledger
    assert [row["epsilon"] for row in shown["learned"] if row["audience"] == "analyst"] == [
        ledger.coalition(["analyst"], relation).epsilon
        for relation in type(ledger.total().relation)
    ]
    assert shown["learned"][0]["audience"] == "public"
    assert shown["learned"][0]["epsilon"] == 0.0


def test_an_analyst_that_is_not_named(town: Town) -> None:
    with pytest.raises(HedgerowError) as caught:
        run(town, "ann0", "show", "noisy")
    assert caught.value.code is Code.CALLER_NOT_ALLOWED
    with pytest.raises(HedgerowError) as caught:
        run(town, "north", "show", "none")
    assert caught.value.code is Code.UNKNOWN_MODEL


def test_an_analyst_that_a_policy_does_not_allow(town: Town, monkeypatch) -> None:
    monkeypatch.setitem(town.policies[1].__dict__, "allowed_analysts", ("ann0",))
    shown = told(town, "ann1", "show", "both", code=1)
    assert shown["refused"] == {"birch": "H858"}
    rows = told(town, "ann1", "list", code=1)["rows"]
    assert rows[0]["servers"] == {"alder": "kept", "birch": "missing", "cedar": "kept"}


def test_servers_that_differ(town: Town) -> None:
    store = open_store(town.configs["cedar"].state)
    with store.transaction("change") as made:
        before = made.row("models", name="noisy")
        assert before is not None
        other = before["manifest"].replace('"noisy-run"', '"other-run"')
        made.put("models", {**before, "manifest": other})
    try:
        rows = told(town, "north", "list", code=1)["rows"]
        assert rows[1]["servers"] == {"alder": "kept", "birch": "kept", "cedar": "differs"}
        assert rows[0]["servers"] == dict.fromkeys(SERVERS, "kept")
        # The manifest is bound to the shares, so what was changed is not told of one.
        shown = told(town, "north", "show", "noisy", code=1)
        assert list(shown["refused"]) == ["cedar"]
    finally:
        with store.transaction("put back") as made:
            made.put("models", before)


def test_ledgers_that_count_differently(town: Town, monkeypatch) -> None:
    monkeypatch.setitem(town.policies[2].__dict__, "queries_per_analyst", 20)
    shown = told(town, "ann0", "show", "both", code=1)
    assert not shown["ok"]
    assert list(shown["differences"]) == ["asking"]
    left = {name: said[0]["left"] for name, said in shown["differences"]["asking"].items()}
    assert left == {"alder": 30 - ROWS, "birch": 30 - ROWS, "cedar": 20 - ROWS}
    assert "DIFFER in asking" in run(town, "ann0", "show", "both", code=1)


def test_a_server_that_is_down(town: Town) -> None:
    town.stop(2)
    try:
        listed = told(town, "north", "list", code=1)
        assert (listed["ok"], listed["refused"]) == (False, {"cedar": "H882"})
        assert listed["rows"][0]["servers"]["cedar"] == "unreachable"
        shown = told(town, "north", "show", "both", code=1)
        assert shown["refused"] == {"cedar": "H882"}
        assert shown["asking"][0]["asked"] == ROWS
        assert "both" in run(town, "north", "list", code=1)
    finally:
        town.start(2)


def test_rows_are_charged_once_more_for_every_answer(town: Town) -> None:
    town.analyst(1).ask("both", table(3)[0])
    assert told(town, "ann1", "show", "both")["asking"][0]["asked"] == 3
