"""``hedgerow upload`` and ``hedgerow align-key``, as an owner types them."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from hedgerow.cli.parties import upload as verbs
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.uploads import read_manifest
from tests.parties.roles.upload_servers import (
    DOMAIN,
    SERVERS,
    consortium,
    people,
    serving,
    write_csv,
)

app = typer.Typer()
app.command()(verbs.upload)
app.command()(verbs.align_key)
runner = CliRunner()


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    return consortium(tmp_path_factory.mktemp("wards"))


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("domain.toml").write_text(DOMAIN.to_toml())
    write_csv(Path("people.csv"), people())


def run(*arguments: str) -> str:
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_upload(parties) -> None:
    north = str(parties["north"].folder)
    common = ["--domain", "domain.toml", "--population", "patients"]
    with serving(parties):
        text = run("upload", "people.csv", north, *common, "--id", "north-1")
        assert "100 slots of 8 bits" in text
        assert "charged to patients" in text
        made = json.loads(
            run(
                *("upload", "people.csv", north, *common, "--id", "north-2"),
                *("--slots", "70", "--format", "json"),
            )
        )
        with pytest.raises(HedgerowError) as caught:
            run("upload", "people.csv", north, *common, "--id", "north-2", "--quiet")
    assert caught.value.code is Code.UPLOAD_ID_USED
    assert made["ok"]
    assert (made["id"], made["slots"], made["servers"]) == ("north-2", 70, list(SERVERS))
    for name in SERVERS:
        assert read_manifest(parties[name].state, "north-2").digest == made["digest"]


def test_columns(parties) -> None:
    assert "no server" in run("align-key", "align.key")
    assert json.loads(run("align-key", "other.key", "--format", "json"))["ok"]
    write_csv(Path("north.csv"), people().select(["id", "age", "sex"]))
    write_csv(Path("south.csv"), people().select(["id", "ward", "ill"]))
    with serving(parties):
        for name in ("north", "south"):
            run(
                *("upload", f"{name}.csv", str(parties[name].folder), "--domain", "domain.toml"),
                *("--population", "patients", "--id", f"columns-{name}", "--ids", "id"),
                *("--align-key", "align.key", "--id-type", "number", "--quiet"),
            )
    left, right = (
        read_manifest(parties["birch"].state, f"columns-{n}") for n in ("north", "south")
    )
    assert left.alignment == right.alignment != ""
    assert left.ids == right.ids == "number"
    assert (left.has_target, right.has_target) == (False, True)
