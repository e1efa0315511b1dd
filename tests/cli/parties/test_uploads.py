"""``hedgerow uploads``, as an owner types it."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from tests.parties.roles.owner_wards import Wards, one
from tests.parties.roles.upload_servers import SERVERS, serving

LONG = "north-" + "x" * 57
runner = CliRunner(env={"COLUMNS": "40"})


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> Wards:
    return Wards(tmp_path_factory.mktemp("wards"))


@pytest.fixture(autouse=True)
def _served(wards: Wards) -> Iterator[None]:
    with serving(wards.parties, wards.verbs) as wards.services:
        yield


def run(wards: Wards, *arguments: str, code: int = 0) -> str:
    line = ["uploads", *arguments, str(wards.north.folder)]
    result = runner.invoke(app, line, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_listed_and_withdrawn(wards: Wards) -> None:
    manifest = wards.upload(LONG).manifest
    job = one("long", uploads=[LONG])
    wards.post(job)
    told = json.loads(run(wards, "list", "--format", "json"))
    assert (told["ok"], told["refused"]) == (True, {})
    (row,) = told["rows"]
    assert (row["id"], row["digest"], row["runs"]) == (LONG, manifest.digest, [job.run_id])
    text = run(wards, "list")
    # Text has what JSON has, and ids are whole however narrow the terminal is.
    for part in (LONG, "patients", "100 slots", "3 columns and the target", job.run_id):
        assert part in text
    assert all(f"  {name}: kept since 20" in text for name in SERVERS)
    assert manifest.digest in text
    for made in wards.managers.values():
        made.end(job.run_id, "zoe")
    done = json.loads(run(wards, "withdraw", LONG, "--format", "json"))
    servers = dict.fromkeys(SERVERS, "withdrawn")
    assert done == {"ok": True, "id": LONG, "servers": servers, "refused": {}}
    assert f"{LONG}\n  alder: withdrawn\n" in run(wards, "withdraw", LONG)
    assert "cedar: withdrawn since 20" in run(wards, "list")


def test_a_server_that_does_not_answer_is_named(wards: Wards) -> None:
    wards.upload("north-2")
    wards.services["cedar"].stop(1.0)
    told = json.loads(run(wards, "list", "--format", "json", code=1))
    assert (told["ok"], set(told["refused"])) == (False, {"cedar"})
    assert "north-2" in {row["id"] for row in told["rows"]}
    assert {row["servers"]["cedar"] for row in told["rows"]} == {"unreachable"}
    assert "cedar: unreachable" in run(wards, "list", code=1)
    done = json.loads(run(wards, "withdraw", "north-2", "--format", "json", code=1))
    assert done["servers"] == {"alder": "withdrawn", "birch": "withdrawn", "cedar": "unreachable"}
    assert set(done["refused"]) == {"cedar"}
