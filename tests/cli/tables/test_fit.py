"""``hedgerow fit``, ``predict``, ``account`` and ``show``, as the owner of one table types them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from hedgerow import Account, DPTreeClassifier, Ledger
from hedgerow.cli.main import app
from hedgerow.cli.tables import fit as verbs
from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators import fitting
from hedgerow.privacy import ROOT, Relation, Release
from hedgerow.privacy.entries import Mark
from tests.estimators.one_table import people, write_files

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


def test_a_best_first_tree() -> None:
    text = run(*FIT, "--model", "topdown", "--depth", "2", "--epsilon", "1", "--out", "best")
    assert "worth of the split of each node at depth 2" in text
    assert run("show", "best/model.json", "--depth", "1").startswith("Decision tree for ill")


def test_of_which_tables_the_epsilon_holds_stands_wherever_it_does() -> None:
    run(*TREE, "--out", "tree")
    condition = Ledger.from_json(Path("tree/ledger.json").read_text()).condition
    assert "tables of at most 1,000 rows" in condition
    assert condition in run("ledger", "tree")
    assert json.loads(run("ledger", "tree", "--format", "json"))["condition"] == condition
    assert condition in invoke("show", "tree").stderr
    run("report", "tree")
    # Beside the cards, and among the limits.
    assert Path("tree/report.html").read_text().count(condition[1:]) == 2
    for more in (("--bad-rows", "error"), ("--seed", "1")):
        run(*TREE, "--out", "other", "--force", *more)
        assert "tables of at most" not in run("ledger", "other")


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
    assert [row["row"] for row in answers["rows"]] == list(range(600))
    out = ("--out", "answers.parquet")
    assert "600 rows" in run("predict", "tree/model.json", "people.csv", *out)
    assert pyarrow.parquet.read_table("answers.parquet").to_pylist() == answers["rows"]
    assert refused("predict", "tree/model.json", "people.csv", *out) is Code.FILE_EXISTS


def test_without_a_model_public_numbers_choose_one() -> None:
    report = json.loads(run(*FIT, "--epsilon", "3", "--out", "a", "--format", "json"))
    assert report["trained"] == "boosting"
    assert report["reason"].endswith("at least 200")
    text = run(*FIT, "--epsilon", "0.05", "--delta", "1e-7", "--out", "b", "--quiet")
    assert "trained: tree (capacity * epsilon = " in text
    assert run("show", "b").startswith("Decision tree for ill")
    assert refused(*FIT, "--epsilon", "1", "--trees", "3", "--out", "c") is Code.BAD_PARAMETER


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


def test_an_account_says_at_which_delta_it_counts() -> None:
    made = ("account", "new", "account.json", "--epsilon", "2", "--delta", "1e-6")
    assert "hedgerow fit --delta 1e-08" in run(*made)
    boosting = (*FIT, "--model", "boosting", "--epsilon", "1", "--trees", "3")
    text = run(*boosting, "--delta", "1e-8", "--out", "a", "--account", "account.json")
    assert "account: epsilon 1, delta" in text


def test_an_account_pays_until_it_is_empty() -> None:
    assert "epsilon 2" in run("account", "new", "account.json", "--epsilon", "2")
    assert refused("account", "new", "account.json", "--epsilon", "9") is Code.FILE_EXISTS
    for out in ("a", "b"):
        text = run(*TREE, "--out", out, "--account", "account.json")
    assert "account: epsilon 2" in text
    assert refused(*TREE, "--out", "c", "--account", "account.json") is Code.BUDGET_EXCEEDED
    assert not Path("c").exists()
    shown = json.loads(run("account", "show", "account.json", "--format", "json"))
    assert [fit["epsilon"] for fit in shown["fits"]] == pytest.approx([1.0, 1.0])
    assert shown["spent"]["epsilon"] == pytest.approx(shown["budget"]["epsilon"])
    assert "fit 2" in run("account", "show", "account.json")


def test_an_account_shows_whom_a_fit_promises_nothing_beside_what_it_charged() -> None:
    paid = Ledger(budget=3.0)
    held = Release("two-sided geometric", 1.0, 0.0, 1.0, ROOT, "peer", "counts")
    Account(paid).charge([held], [Mark("peers hold them", ("peer",), Relation.ADD_REMOVE)])
    Path("account.json").write_text(paid.to_json())
    shown = json.loads(run("account", "show", "account.json", "--format", "json"))
    assert shown["fits"] == [{"fit": "fit 1", "epsilon": "inf", "delta": 0.0}]
    assert shown["spent"] == {"epsilon": None, "delta": 0.0, "why": "fit 1: peers hold them"}
    assert shown["charged"]["epsilon"] == 1.0
    text = run("account", "show", "account.json").splitlines()
    assert text[-2:] == [
        "spent: epsilon inf, delta 0 (fit 1: peers hold them)",
        "charged: epsilon 1, delta 0 of epsilon 3, delta 9.09e-13",
    ]


def test_an_interrupt_says_what_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    at = {"stage": "reading"}

    @contextmanager
    def shown(quiet: bool) -> Iterator:
        def tell(stage: str, done: int, of: int) -> None:
            if stage == at["stage"]:
                raise KeyboardInterrupt

        yield tell

    monkeypatch.setattr(verbs, "progress_bar", shown)
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


def test_a_seed_is_refused_by_a_budget_before_the_table_is_opened() -> None:
    Account.new("account.json", 5.0)
    Path("people.csv").unlink()
    out = ("--out", "a", "--seed", "1", "--account", "account.json")
    assert refused(*TREE, *out) is Code.BUDGET_EXCEEDED


@pytest.mark.parametrize("older", [False, True])
def test_an_interrupt_before_the_ledger_is_written_names_the_account(
    monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    if older:
        run(*TREE, "--out", "a")
    Account.new("account.json", 5.0)

    def interrupted(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "_write", interrupted)
    result = invoke(*TREE, "--out", "a", "--force", "--account", "account.json", "--format", "json")
    assert result.exit_code == verbs.INTERRUPTED
    assert Account("account.json").spent().epsilon == pytest.approx(1.0)
    report = json.loads(result.stdout)
    assert report["charged"]
    assert report["ledger"] is None
    assert report["account"] == "account.json"
    assert "stays charged: account.json" in result.stderr
    # Without an account, nothing but the ledger could have been charged, and nothing was drawn.
    result = invoke(*TREE, "--out", "a", "--force")
    assert "nothing was charged" in result.stderr


def test_an_interrupt_after_the_model_was_written_says_that_it_was_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(ledger: Ledger, title: str) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "privacy_curve", interrupted)
    result = invoke(*TREE, "--out", "a")
    assert Path("a/model.json").exists()
    assert "stays charged: a/ledger.json" in result.stderr


def refusal(*arguments: str) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        run(*arguments)
    return caught.value


def test_a_refused_fit_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("fit", "nowhere.csv", *TREE[2:], "--out", "a/b") is Code.UNREADABLE_FILE
    assert not Path("a").exists()
    # The account is emptied by somebody else after it was looked at.
    Account.new("account.json", 0.5)
    monkeypatch.setattr(DPTreeClassifier, "_check_account", lambda self, plan: None)
    out = ("--out", "a/b", "--account", "account.json")
    assert refused(*TREE, *out) is Code.BUDGET_EXCEEDED
    assert not Path("a").exists()
    Path("a").mkdir()
    assert refused(*TREE, *out) is Code.BUDGET_EXCEEDED
    assert Path("a").exists()


@pytest.mark.parametrize("out", ["people.csv", "people.csv/below", "people.csv/model.json"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_charged(out: str) -> None:
    Account.new("account.json", 5.0)
    error = refusal(*TREE, "--out", out, "--account", "account.json")
    assert error.code is Code.STATE_NOT_WRITTEN
    assert "people.csv: Not a directory" in error.found
    assert error.fix == "choose another --out"
    assert Account("account.json").spent().epsilon == 0


def test_a_folder_that_turns_out_not_to_be_writable_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Account.new("account.json", 5.0)
    made = Path.mkdir

    def full(self: Path, *arguments: object, **more: object) -> None:
        if self.name == "a":
            raise OSError(28, "No space left on device", str(self))
        made(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", full)
    error = refusal(*TREE, "--out", "a", "--account", "account.json")
    assert error.code is Code.STATE_NOT_WRITTEN
    assert "No space" in error.found
    assert Account("account.json").spent().epsilon == 0


def test_a_forest_names_the_file_and_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = (*FIT, "--model", "median-forest", "--epsilon", "1", "--trees", "1", "--out", "f")
    monkeypatch.setattr(fitting, "_ROWS", 100)
    table = people().to_pandas()
    table.loc[250, "ward"] = "z"
    table.to_csv("people.csv", index=False)
    error = refusal(*forest, "--bad-rows", "error")
    assert error.code is Code.UNKNOWN_CATEGORY
    assert error.found.startswith("people.csv: 1 row of column 'ward' (row 250: 'z'")
    assert not Path("f").exists()


@pytest.mark.parametrize("model", ["median-forest", "tree"])
def test_text_in_a_numeric_column_is_named(model: str) -> None:
    table = people().to_pandas().astype({"age": str})
    table.loc[250, "age"] = "forty"
    table.to_csv("people.csv", index=False)
    fit = (*FIT, "--model", model, "--epsilon", "1", "--out", "f")
    error = refusal(*fit, "--bad-rows", "error")
    assert error.code is Code.UNREADABLE_FILE
    assert "'forty'" in error.found
    assert "column 'age'" in error.found
    assert "kind in the domain" in error.fix


def test_boosting_asks_for_an_account_with_a_delta() -> None:
    Account.new("account.json", 5.0)
    boosting = (*FIT, "--model", "boosting", "--epsilon", "1", "--out", "b")
    error = refusal(*boosting, "--account", "account.json")
    assert error.code is Code.BUDGET_EXCEEDED
    assert "make the account with a delta" in error.fix
    Account.new("other.json", 0.5, 1e-5)
    error = refusal(*boosting, "--account", "other.json")
    assert "lower epsilon" in error.fix
    assert "make the account" not in error.fix


SMALL = """
capacity = 6
[target]
name = "ill"
classes = ["no", "yes"]
[[attributes]]
name = "age"
kind = "numeric"
bounds = [0, 100]
bins = 4
outside = "error"
"""
TABLES = {
    "fits": b"age,ill\n10,no\n90,yes\n",
    "no rows": b"age,ill\n",
    "does not fit": b"age,ill\n999,no\nforty,yes\n,yes\n5\n7,no,8\n8,maybe\n9,\n\xff\xfe,n\xff\n",
    "over the capacity": b"age,ill\n" + b"20,no\n" * 9,
}


@pytest.mark.parametrize("model", ["tree", "median-forest", "boosting"])
def test_what_fit_prints_and_refuses_does_not_depend_on_rows(model: str) -> None:
    Path("small.toml").write_text(SMALL)
    printed = []
    for name, content in TABLES.items():
        Path("t.csv").write_bytes(content)
        fit = ["fit", "t.csv", "--domain", "small.toml", "--model", model, "--epsilon", "1"]
        result = invoke(*fit, "--out", "same", "--force", "--quiet")
        printed.append((result.exit_code, result.stdout, result.stderr))
        owner = Path("same/owner-only.json")
        assert owner.stat().st_mode & 0o777 == 0o600
        counts = json.loads(owner.read_text())
        assert counts["note"].startswith("For the owner's eyes only")
        if name == "does not fit":
            assert counts["broken lines"] == 2
            assert counts["rows without a target"] == 3
            assert counts["values"]["age"] == {"clipped": 1, "missing": 3, "unreadable": 2}
        assert counts["rows over the capacity"] == (3 if name == "over the capacity" else 0)
        if name != "fits":
            assert refused(*fit, "--out", "strict", "--bad-rows", "error").number[:2] == "H1"
    assert printed[0][0] == 0
    assert "for the owner's eyes only: same/owner-only.json" in printed[0][1]
    assert len(set(printed)) == 1


def test_a_table_without_rows_in_every_format() -> None:
    Path("small.toml").write_text(SMALL)
    rows = pyarrow.table({"age": pyarrow.array([], "int64"), "ill": pyarrow.array([], "string")})
    pyarrow.parquet.write_table(rows, "t.parquet")
    pyarrow.feather.write_feather(rows, "t.arrow")
    for path in ("t.parquet", "t.arrow"):
        for model in ("tree", "median-forest"):
            fit = ["fit", path, "--domain", "small.toml", "--model", model, "--epsilon", "1"]
            run(*fit, "--out", f"{path}-{model}", "--quiet")
            assert refused(*fit, "--out", "no", "--bad-rows", "error") is Code.EMPTY_TABLE
        # A column that is not there is refused with and without rows.
        Path("other.toml").write_text(SMALL.replace('"age"', '"height"'))
        other = ["fit", path, "--domain", "other.toml", "--model", "tree", "--epsilon", "1"]
        assert refused(*other, "--out", "no") is Code.MISSING_COLUMN
