"""``hedgerow export``, ``hedgerow ledger`` and ``hedgerow plan``, as a user types them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hedgerow import (
    Account,
    Attribute,
    CARTClassifier,
    Domain,
    DPTreeClassifier,
    Target,
    read_model,
)
from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.statement import WHICH
from hedgerow.tables import encode

runner = CliRunner()
DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=500,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of numbers, one that splits categories, and a ledger."""
    folder = tmp_path_factory.mktemp("models")
    ages = np.arange(400) % 100
    rows = {"age": ages, "ward": np.array(["a", "b", "c"])[ages % 3]}
    model = DPTreeClassifier(50.0, DOMAIN, max_depth=2).fit(
        __import__("pandas").DataFrame(rows), np.where(ages % 3 == 1, "yes", "no")
    )
    (folder / "model.json").write_text(model.to_json())
    (folder / "ledger.json").write_text(model.privacy_.to_json())
    plain = CARTClassifier(max_depth=2).fit(ages.reshape(-1, 1), ages > 40)
    (folder / "plain.json").write_text(plain.to_json())
    return folder


def run(*arguments: object) -> str:
    done = runner.invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(code: Code, *arguments: object) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        runner.invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert caught.value.code is code
    return caught.value


def test_onnx_answers_as_the_model(made: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    # Categories are no numbers: the message says what to pass.
    error = refused(Code.CANNOT_EXPORT, "export", made, "--to", "onnx", "--out", out)
    assert "on='bins'" in error.fix
    assert not out.exists()
    assert "onnx" in run("export", made, "--to", "onnx", "--on", "bins", "--out", out)
    model = read_model(made).model
    bins = encode({"age": [10, 60, 90], "ward": ["a", "b", "c"]}, DOMAIN).bins
    session = runtime.InferenceSession(out.read_bytes())
    labels = session.run(["label"], {"X": bins.astype(np.float64)})[0]
    classes = np.array(["no", "yes"])[model.predict_class(bins)]
    assert labels.tolist() == classes.tolist()
    refused(Code.FILE_EXISTS, "export", made, "--to", "onnx", "--on", "bins", "--out", out)
    run("export", made, "--to", "onnx", "--on", "bins", "--out", out, "--force")


def test_other_formats(made: Path, tmp_path: Path) -> None:
    for kind, begins in (("svg", "<svg"), ("text", ""), ("json", "{")):
        out = tmp_path / f"model.{kind}"
        report = json.loads(run("export", made, "--to", kind, "--out", out, "--format", "json"))
        assert report["bytes"] == out.stat().st_size > 0
        assert out.read_text().startswith(begins)
    # Whoever gets the model alone gets no ledger with it.
    assert read_model(tmp_path / "model.json").privacy is None
    out = tmp_path / "second.svg"
    refused(Code.BAD_PARAMETER, "export", made, "--to", "svg", "--out", out, "--tree", 1)


def test_a_ledger_is_printed_from_wherever_it_is(made: Path) -> None:
    text = run("ledger", made / "ledger.json")
    assert text == run("ledger", made) == run("ledger", made / "model.json")
    assert "class counts of each leaf" in text
    # One sentence says which of the two figures to quote.
    assert WHICH in text
    assert re.search(r"public +50 .*add/remove", text)
    data = json.loads(run("ledger", made, "--format", "json"))
    assert [row["relation"] for row in data["summary"]] == ["add/remove", "replace"]


OTHERS = {
    "people.csv": ("age,ward\n31,a\n", "a table (CSV)"),
    "job.toml": ('name = "n"\n', "(TOML)"),
    "notes.txt": ("to whom it may concern", "text"),
    "page.html": ("<!doctype html>", "a page (HTML)"),
}


@pytest.mark.parametrize("verb", ["report", "show", "ledger"])
def test_what_is_no_model_is_called_what_it_looks_like(verb: str, tmp_path: Path) -> None:
    code = Code.BAD_LEDGER_FILE if verb == "ledger" else Code.BAD_MODEL_FILE
    for name, (text, noun) in OTHERS.items():
        (tmp_path / name).write_text(text)
        error = refused(code, verb, tmp_path / name)
        assert noun in error.found
        assert "edit" not in error.fix
    party = tmp_path / "party"
    party.mkdir()
    (party / "party.toml").touch()
    error = refused(Code.BAD_LEDGER_FILE if verb == "ledger" else Code.NO_MODEL_FILE, verb, party)
    assert f" MODEL {party}`" in error.fix


def test_accounts_and_ledgers_are_no_models(made: Path, tmp_path: Path) -> None:
    Account.new(tmp_path / "account.json", 2.0)
    error = refused(Code.BAD_MODEL_FILE, "show", tmp_path / "account.json")
    assert error.fix == f"`hedgerow account show {tmp_path / 'account.json'}` shows what was spent"
    error = refused(Code.BAD_MODEL_FILE, "show", made / "ledger.json")
    assert error.found.endswith("it looks like a ledger")


def test_what_is_no_ledger(made: Path, tmp_path: Path) -> None:
    refused(Code.BAD_LEDGER_FILE, "ledger", tmp_path / "none.json")
    error = refused(Code.BAD_LEDGER_FILE, "ledger", made / "plain.json")
    assert "without one" in error.found
    (tmp_path / "other.json").write_text("{}")
    refused(Code.BAD_LEDGER_FILE, "ledger", tmp_path / "other.json")


JOB = """\
name = "readmission"
protocol = "PROTOCOL"
model = "readmission-1"
population = "patients"
uploads = ["north-1", "south-1"]
analysts = ["zoe"]
[plan]
epsilon = EPSILON
max_depth = 3
[domain]
file = "domain.toml"
"""


def test_a_job_is_planned_without_asking_anybody(tmp_path: Path) -> None:
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml())
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace("PROTOCOL", "hidden-tree").replace("EPSILON", "1.0"))
    said = run("plan", job)
    for part in ("north-1, south-1 (500 slots)", "account of patients", "training opens nothing"):
        assert part in said
    assert "counts of a leaf: noise of 4.7 beside 62 records in it" in said
    assert "drown" not in said.lower()
    job.write_text(JOB.replace("PROTOCOL", "open-tree").replace("EPSILON", "0.05"))
    said = " ".join(run("plan", job).split())
    assert "training opens: splits of level 0, to everybody" in said
    assert "to server" not in said
    assert "warning: the noise will drown this model" in said
    report = json.loads(run("plan", job, "--format", "json"))
    assert report["costs"]["public"]["epsilon"] == pytest.approx(0.05)
    assert report["forecast"]["drowns"] is True
    assert {one["audience"] for one in report["opens"]} == {"public"}
