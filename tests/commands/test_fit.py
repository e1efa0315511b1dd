"""``hedgerow fit``, ``predict``, ``account`` and ``show``, as the owner of one table types them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

sys.path.append(str(Path(__file__).parents[1] / "estimators"))
from one_table import people, write_files

from hedgerow import Ledger
from hedgerow.cli import app
from hedgerow.commands import fit as verbs
from hedgerow.errors import Code, HedgerowError

FIT = ("fit", "people.csv", "--domain", "domain.toml")
TREE = (*FIT, "--model", "tree", "--depth", "2", "--epsilon", "1")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def run(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> Code:
    with pytest.raises(HedgerowError) as caught:
        run(*arguments)
    return caught.value.code


def test_fit_show_and_predict() -> None:
    text = run(*TREE, "--out", "tree")
    assert "class counts of each leaf" in text
    assert "ledger: tree/ledger.json" in text
    assert refused(*TREE, "--out", "tree") is Code.FILE_EXISTS
    report = json.loads(run(*TREE, "--out", "tree", "--force", "--format", "json"))
    assert report["ok"]
    assert report["private"]
    assert report["account"] is None
    assert [row["epsilon"] for row in report["summary"]] == pytest.approx([1.0, 2.0])
    assert "leaves" in run("show", "tree/model.json", "--depth", "1")
    lines = run("predict", "tree/model.json", "people.csv", "--proba").splitlines()
    assert lines[0] == '"row","class","p(no)","p(yes)"'
    assert len(lines) == 601
    answers = json.loads(run("predict", "tree/model.json", "people.csv", "--format", "json"))
    assert [row["class"] for row in answers["rows"]] == [
        line.split(",")[1].strip('"') for line in lines[1:]
    ]
    out = ("--out", "answers.parquet")
    assert "600 rows" in run("predict", "tree/model.json", "people.csv", *out)
    assert pyarrow.parquet.read_table("answers.parquet").to_pylist() == answers["rows"]
    assert refused("predict", "tree/model.json", "people.csv", *out) is Code.FILE_EXISTS


def test_boosting_is_drawn_too() -> None:
    run(*FIT, "--model", "boosting", "--epsilon", "3", "--trees", "3", "--out", "b.json", "--quiet")
    assert "age" in run("show", "b.json")
    assert refused("show", "b.json", "--tree", "99") is Code.BAD_PARAMETER
    assert len(run("predict", "b.json", "people.csv").splitlines()) == 601


def test_a_seed_is_said_to_be_not_private() -> None:
    result = invoke(*TREE, "--seed", "1", "--out", "a")
    assert result.exit_code == 0
    assert "NOT private" in result.stderr
    report = json.loads(run(*TREE, "--seed", "1", "--out", "b", "--format", "json"))
    assert report["private"] is False
    assert report["summary"][0]["epsilon"] == "inf"
    assert Path("a/model.json").read_text() == Path("b/model.json").read_text()
    rows = json.loads(run("predict", "a/model.json", "people.csv", "--format", "json"))["rows"]
    right = [
        row["class"] == ill for row, ill in zip(rows, people()["ill"].to_pylist(), strict=True)
    ]
    assert sum(right) > 500


def test_an_account_pays_until_it_is_empty() -> None:
    assert "epsilon 2" in run("account", "new", "account.json", "--epsilon", "2")
    assert refused("account", "new", "account.json", "--epsilon", "9") is Code.FILE_EXISTS
    for out in ("a", "b"):
        text = run(*TREE, "--out", out, "--account", "account.json")
    assert "account: epsilon 2" in text
    assert refused(*TREE, "--out", "c", "--account", "account.json") is Code.BUDGET_EXCEEDED
    assert list(Path("c").iterdir()) == []
    shown = json.loads(run("account", "show", "account.json", "--format", "json"))
    assert [fit["epsilon"] for fit in shown["fits"]] == pytest.approx([1.0, 1.0])
    assert shown["spent"]["epsilon"] == pytest.approx(shown["budget"]["epsilon"])
    assert "fit 2" in run("account", "show", "account.json")


def test_an_interrupt_says_what_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    at = {"stage": "reading"}

    @contextmanager
    def shown(quiet: bool) -> Iterator:
        def tell(stage: str, done: int, of: int) -> None:
            if stage == at["stage"]:
                raise KeyboardInterrupt

        yield tell

    monkeypatch.setattr(verbs, "_shown", shown)
    boosting = (*FIT, "--model", "boosting", "--epsilon", "1", "--trees", "3", "--out", "b")
    result = invoke(*boosting)
    assert result.exit_code == verbs.INTERRUPTED
    assert "nothing was charged" in result.stderr
    at["stage"] = "rounds"
    result = invoke(*boosting, "--format", "json")
    assert result.exit_code == verbs.INTERRUPTED
    assert json.loads(result.stdout)["charged"]
    assert Ledger.from_json(Path("b/ledger.json").read_text()).total().epsilon > 0.9
    assert not Path("b/model.json").exists()
