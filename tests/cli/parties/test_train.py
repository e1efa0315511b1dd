"""``hedgerow train`` and ``hedgerow runs``, as owners and analysts type them."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app, main
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.runs.client import RunClient, RunStatus
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.protocols.forecast import forecast
from tests.parties.roles.upload_servers import SERVERS
from tests.parties.runs.run_servers import Town, job, town

runner = CliRunner()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("town")) as made:
        yield made


def write(folder: Path, proposed: ServerJob) -> str:
    path = folder / f"{proposed.name}.toml"
    path.write_text(proposed.to_toml())
    return str(path)


def run(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_train_and_look_at_it(place: Town, tmp_path: Path) -> None:
    north, zoe = (str(place.parties[name].folder) for name in ("north", "zoe"))
    proposed = job("typed", plan={"max_depth": 2})
    lines = [
        json.loads(line)
        for line in run("train", write(tmp_path, proposed), north, "--format", "json").splitlines()
    ]
    foreseen = lines[0].pop("forecast")
    assert lines[0] == {"event": "posted", "run": proposed.run_id, "hash": proposed.hash}
    assert foreseen == forecast(proposed.make_plan()).to_dict()
    assert lines[-1]["state"] == "done"
    assert lines[-1]["parties"] == dict.fromkeys(SERVERS, "done")
    assert lines[-1]["bytes"] > 0
    assert {line["state"] for line in lines[1:]} <= {"accepted", "waiting", "running", "done"}

    shown = json.loads(run("runs", "show", proposed.run_id, zoe, "--format", "json"))
    assert (shown["ok"], shown["state"], shown["depth"]) == (True, "done", 2)
    assert f"{proposed.run_id}: done" in run("runs", "show", proposed.run_id, zoe)
    rows = json.loads(run("runs", "list", zoe, "--format", "json"))["rows"]
    (row,) = [one for one in rows if one["run"] == proposed.run_id]
    assert (row["model"], row["by"], row["protocol"]) == ("typed-model", "north", "hidden-tree")
    assert (row["parties"], row["errors"]) == (dict.fromkeys(SERVERS, "done"), {})
    assert abs(row["since"] - time.time()) < 3600
    assert {key: shown[key] for key in ("model", "by", "since")} == {
        key: row[key] for key in ("model", "by", "since")
    }
    text = run("runs", "list", north)
    assert all(word in text for word in ("typed-model", "north", "hidden-tree", proposed.run_id))
    # A beginning is enough, where no other run begins so.
    assert f"{proposed.run_id}: done" in run("runs", "show", proposed.run_id[:7], zoe)
    # A server asks the other two.
    alder = str(place.parties["alder"].folder)
    assert "birch: done" in run("runs", "show", proposed.run_id, alder)
    # The same job again is there at once.
    assert run("train", write(tmp_path, proposed), north, "--quiet") == ""


def test_a_server_that_is_down_is_no_success(place: Town) -> None:
    north = str(place.parties["north"].folder)
    known = json.loads(run("runs", "list", north, "--format", "json"))
    place.kill("cedar")
    try:
        told = json.loads(run("runs", "list", north, "--format", "json", code=1))
        assert (told["ok"], told["unreachable"]) == (False, ["cedar"])
        assert [row["run"] for row in told["rows"]] == [row["run"] for row in known["rows"]]
        assert "unreachable" in run("runs", "list", north, code=1) or not known["rows"]
    finally:
        place.start("cedar")


@pytest.mark.slow
def test_stop_and_resume(place: Town, tmp_path: Path) -> None:
    north = str(place.parties["north"].folder)
    proposed = job("paused", plan={"max_depth": 2})
    run_id = proposed.run_id
    path = write(tmp_path, proposed)
    assert run("train", path, north, "--no-wait", "--quiet").strip() == run_id
    assert "alder: stopped" in run("runs", "stop", run_id, north)
    with pytest.raises(HedgerowError) as caught:
        run("train", path, north)
    assert caught.value.code is Code.WRONG_RUN_STATE
    assert f"runs resume {run_id}" in caught.value.fix
    told = json.loads(run("runs", "resume", run_id, north, "--format", "json"))
    assert told["ok"]
    assert f"{run_id}: done" in run("runs", "show", run_id, north, "--wait")


@pytest.mark.parametrize("command", ["train", "stop", "resume"])
def test_servers_post_nothing(place: Town, tmp_path: Path, command: str) -> None:
    alder = str(place.parties["alder"].folder)
    line = ["train", write(tmp_path, job())] if command == "train" else ["runs", command, "x-1"]
    with pytest.raises(HedgerowError) as caught:
        run(*line, alder)
    assert caught.value.code is Code.WRONG_ROLE


def test_what_one_server_refuses_is_posted_to_none(place: Town, tmp_path: Path) -> None:
    north = str(place.parties["north"].folder)
    dear = job("dear", plan={"noise": "splits+leaves", "epsilon": 9.0})
    with pytest.raises(HedgerowError) as caught:
        run("train", write(tmp_path, dear), north)
    assert caught.value.code is Code.POLICY_REFUSES
    with pytest.raises(HedgerowError) as caught:
        run("runs", "show", dear.run_id, north)
    assert caught.value.code is Code.UNKNOWN_RUN


def watching(*ends: Any) -> Any:
    """Return a method that yields these, or raises them."""

    def watch(self: RunClient, run: str) -> Iterator[RunStatus]:
        del self, run
        for end in ends:
            if isinstance(end, RunStatus):
                yield end
            else:
                raise end

    return watch


def test_leaving_does_not_end_the_run(
    place: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    north = str(place.parties["north"].folder)
    under_way = RunStatus("r", "running", 2, level=1, depth=3, nodes=2, octets=9, left=4.0)
    monkeypatch.setattr(RunClient, "watch", watching(under_way, KeyboardInterrupt()))
    monkeypatch.setattr(RunClient, "post", lambda self, posted: posted.run_id)
    result = runner.invoke(app, ["train", write(tmp_path, job()), north], catch_exceptions=False)
    assert result.exit_code == 130
    words = " ".join(result.stderr.split())
    assert "The run goes on" in words
    assert f"hedgerow runs show {job().run_id}" in words


def test_what_is_trained_points_to_its_page(
    place: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    north = str(place.parties["north"].folder)
    monkeypatch.setattr(RunClient, "watch", watching(RunStatus("r", "done")))
    monkeypatch.setattr(RunClient, "post", lambda self, posted: posted.run_id)
    said = runner.invoke(app, ["train", write(tmp_path, job()), north], catch_exceptions=False)
    line = f"a page about it: hedgerow report {job().run_id} {north}"
    assert line in said.stdout
    quiet = ["train", write(tmp_path, job()), north, "--quiet"]
    assert line not in runner.invoke(app, quiet, catch_exceptions=False).stdout


def test_a_failure_has_its_number(
    place: Town,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    north = str(place.parties["north"].folder)
    error = Code.SERVER_MISSING.error(found="no cedar")
    failed = RunStatus("r", "failed", 1, error=error)
    monkeypatch.setattr(RunClient, "watch", watching(failed))
    monkeypatch.setattr(RunClient, "post", lambda self, posted: posted.run_id)
    monkeypatch.setattr(
        sys, "argv", ["hedgerow", "train", write(tmp_path, job()), north, "--format", "json"]
    )
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-2]["error"] == lines[-1]["error"] == "H894"
    assert lines[-1]["ok"] is False
