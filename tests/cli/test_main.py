"""The command line: what it prints, and its exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from hedgerow import Attribute, CARTClassifier, Domain, Target, __version__
from hedgerow.cli.main import app, main
from hedgerow.errors import Code
from hedgerow.tables import encode
from hedgerow.trees import grow_forest, write_model

runner = CliRunner()


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(app, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout


def fails_with(code: Code, monkeypatch, capsys, *arguments: str) -> str:
    """Run as a user does: a numbered error is printed without a traceback, exit code 2."""
    monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    text = capsys.readouterr().err
    assert code.number in text
    for part in ("expected:", "found:", "what to do:"):
        assert part in text
    assert "Traceback" not in text
    return text


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "wards.csv"
    path.write_text("age,ward,ill\n31,a,no\n47,b,yes\n80,a,no\n22,b,yes\n")
    return path


def test_version() -> None:
    assert run("version") == run("--version") == (0, f"{__version__}\n")
    assert json.loads(run("version", "--format", "json")[1]) == {"version": __version__}


@pytest.mark.parametrize(
    ("typed", "meant"), [(("reprot", "x"), "report"), (("domain", "sugest"), "suggest")]
)
def test_a_misspelt_verb_is_asked_about_once(typed: tuple[str, ...], meant: str) -> None:
    done = runner.invoke(app, typed)
    assert done.exit_code == 2
    assert re.findall(r"[Dd]id you mean [^.]*", done.stderr) == [f"did you mean '{meant}'?)"]


def test_errors_are_listed_and_explained() -> None:
    rows = json.loads(run("errors", "--format", "json")[1])["rows"]
    assert [row["number"] for row in rows] == [code.number for code in Code]
    for number in ("H201", "h201", "201"):
        assert "Epsilon" in run("errors", number)[1]
    assert "'.[onnx]'" in run("errors")[1]


def test_an_unknown_error_number_is_an_error(monkeypatch, capsys) -> None:
    fails_with(Code.UNKNOWN_ERROR_NUMBER, monkeypatch, capsys, "errors", "H1")


def test_error_pages_are_written(tmp_path: Path) -> None:
    (tmp_path / "H000.md").write_text("a number of the past")
    for name in ("HISTORY.md", "README.md"):
        (tmp_path / name).write_text("somebody's own")
    assert run("errors", "--write", str(tmp_path))[0] == 0
    pages = {path.stem for path in tmp_path.glob("H*.md")}
    assert pages == {"HISTORY", *(code.number for code in Code)}
    assert (tmp_path / "README.md").read_text() == "somebody's own"


def test_domain_suggest_then_check(table: Path, tmp_path: Path) -> None:
    code, text = run("domain", "suggest", str(table), "--target", "ill", "--bins", "4")
    assert code == 0
    draft = Domain.from_toml(text)
    assert draft.provenance == "read from data"
    assert draft.target is not None
    assert draft.target.classes == ("no", "yes")
    path = tmp_path / "domain.toml"
    path.write_text(text)
    check = ("domain", "check", str(path), str(table), "--format", "json")
    code, out = run(*check)
    # The rows fit, but no fit takes a draft, nor a domain without a capacity.
    assert (code, [p["error"] for p in json.loads(out)["problems"]]) == (2, ["H208", "H202"])
    path.write_text("capacity = 4\n" + text.replace("read from data", "confirmed public"))
    code, out = run(*check)
    fine = {"ok": True, "rows": 4, "attributes": 2, "clipped": {}, "problems": []}
    assert (code, json.loads(out)) == (0, fine)


def test_domain_suggest_says_that_whole_numbers_may_be_a_quantity(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("age,days,ward\n" + "".join(f"{20 + i},{i % 30},{i % 3}\n" for i in range(60)))
    suggest = ("domain", "suggest", str(path))
    result = runner.invoke(app, [*suggest, "--target", "days"])
    said = " ".join(result.stderr.split())
    assert "'days' was taken for 30 classes" in said
    assert "--task regression" in said
    target = Domain.from_toml(result.stdout).target
    assert target is not None
    assert target.classes == tuple(range(30))
    # Where somebody has chosen, and where there are few of them, there is nothing to say.
    result = runner.invoke(app, [*suggest, "--target", "days", "--task", "regression"])
    target = Domain.from_toml(result.stdout).target
    assert target is not None
    assert target.bounds == (0, 29)
    for more in (("--task", "regression"), ("--task", "classification")):
        assert "taken for" not in runner.invoke(app, [*suggest, "--target", "days", *more]).stderr
    assert "taken for" not in runner.invoke(app, [*suggest, "--target", "ward"]).stderr


CHECKED = """\
capacity = 4
[target]
name = "ill"
classes = ["no", "yes"]
[[attributes]]
name = "age"
kind = "numeric"
bounds = [30, 60]
bins = 3
[[attributes]]
name = "ward"
kind = "categorical"
categories = ["a", "b"]
"""


def test_domain_check_names_all_that_does_not_fit(table: Path, tmp_path, capsys) -> None:
    path = tmp_path / "domain.toml"
    path.write_text(CHECKED)
    table.write_text(table.read_text() + "50,z,no\n,a,perhaps\n")
    result = runner.invoke(app, ["domain", "check", str(path), str(table)])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    for number in ("H101", "H102", "H104", "H112"):
        assert number in said
    for words in ("'age'", "row 4: 'z'", "row 5: 'perhaps'", "at most 4 rows", "found: 6 rows"):
        assert words in said
    assert 'missing = "own bin" under the attribute in the domain file' in said
    assert " fit " not in result.stdout


def test_domain_check_and_fit_agree_about_the_capacity(table: Path, tmp_path, monkeypatch, capsys):
    path = tmp_path / "domain.toml"
    path.write_text(CHECKED.replace("capacity = 4", "capacity = 3"))
    result = runner.invoke(app, ["domain", "check", str(path), str(table)])
    assert result.exit_code == 2
    fit = ["fit", str(table), "--domain", str(path), "--model", "tree", "--epsilon", "1"]
    more = ["--out", str(tmp_path / "m"), "--quiet", "--bad-rows", "error"]
    said = fails_with(Code.CAPACITY_EXCEEDED, monkeypatch, capsys, *fit, *more)
    assert said.split() == result.stderr.split()


def test_domain_check_counts_what_will_be_clipped(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "domain.toml"
    path.write_text(CHECKED + 'outside = "clip"\n')
    table.write_text(table.read_text().replace("31,a", "31,z"))
    code, out = run("domain", "check", str(path), str(table))
    assert code == 0
    assert out.splitlines() == [
        "4 rows fit the domain of 2 attributes.",
        "2 values of 'age' will be clipped: outside what the domain declares",
        "1 value of 'ward' will be clipped: outside what the domain declares",
    ]


def test_a_table_without_some_columns_is_said_once(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "domain.toml"
    path.write_text(CHECKED)
    table.write_text("ward\na\n")
    code, out = run("domain", "check", str(path), str(table), "--format", "json")
    (problem,) = json.loads(out)["problems"]
    assert (code, problem["error"]) == (2, "H107")
    assert problem["expected"] == "columns 'age', 'ill'"


@pytest.mark.parametrize(
    ("verb", "text", "encoding", "flags"),
    [
        ("suggest", "age;ill\n31;no\n47;yes\n", "utf-8", ("--delimiter", "';'")),
        ("suggest", "age\till\n31\tno\n47\tyes\n", "utf-8", ("--delimiter", "$'\\t'")),
        ("suggest", "age,ill\n31,naïve\n47,yes\n", "latin-1", ("--encoding", "latin-1")),
        ("suggest", "âge,ill\n31,no\n47,yes\n", "latin-1", ("--encoding", "latin-1")),
        ("suggest", "age,ill\n31,no\n47,yes\n", "utf-16", ("--encoding", "utf-16")),
        ("suggest", "age,ill and all\n31,no\n4,s\n", "utf-16-le", ("--encoding", "utf-16-le")),
    ],
)
def test_a_table_in_other_characters_is_refused_with_the_flag_that_reads_it(
    tmp_path: Path, monkeypatch, capsys, verb, text, encoding, flags
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode(encoding))
    code = Code.OTHER_DELIMITER if flags[0] == "--delimiter" else Code.OTHER_ENCODING
    said = fails_with(code, monkeypatch, capsys, "domain", verb, str(path))
    assert f"pass {' '.join(flags)} " in " ".join(said.split())
    # As a shell hands it over.
    value = flags[1].strip("$'").replace("\\t", "\t")
    assert run("domain", verb, str(path), flags[0], value)[0] == 0


def test_every_verb_that_reads_a_table_takes_the_flags(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("domain.toml").write_text(CHECKED.replace("capacity = 4", "capacity = 2000"))
    rows = "age;ward;ill\n" + "31;a;no\n47;b;yes\n" * 1000
    Path("t.csv").write_bytes(rows.encode("utf-16"))
    text = ("--delimiter", ";", "--encoding", "utf-16")
    assert run("domain", "check", "domain.toml", "t.csv", *text)[0] == 0
    for model in ("tree", "median-forest"):
        fit = ("fit", "t.csv", "--domain", "domain.toml", "--model", model, "--epsilon", "9")
        assert run(*fit, "--out", model, "--quiet", *text)[0] == 0
    code, out = run("predict", "tree/model.json", "t.csv", *text)
    assert (code, len(out.splitlines())) == (0, 2001)
    for verb in ("upload", "query"):
        assert "--delimiter" in run(verb, "--help")[1]


def test_a_single_column_with_an_odd_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("height | cm\n170\n180\n")
    assert "height | cm" in run("domain", "suggest", str(path))[1]


@pytest.mark.parametrize("flags", [("--delimiter", ";;"), ("--encoding", "klingon")])
def test_flags_of_a_table_are_checked(table: Path, monkeypatch, capsys, flags) -> None:
    fails_with(Code.BAD_PARAMETER, monkeypatch, capsys, "domain", "suggest", str(table), *flags)


def test_a_failure_is_json_where_json_is_wanted(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["hedgerow", "errors", "H1", "--format", "json"])
    with pytest.raises(SystemExit):
        main()
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["error"]) == (False, "H901")


def test_a_missing_file_is_a_numbered_error(monkeypatch, capsys) -> None:
    fails_with(Code.UNREADABLE_FILE, monkeypatch, capsys, "domain", "suggest", "nowhere.csv")


def test_show_draws_trees_and_forests(tmp_path: Path, monkeypatch, capsys) -> None:
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "tree.json"
    path.write_text(CARTClassifier(max_depth=2).fit(X, y).to_json())
    assert "x3 <= 1.75" in run("show", str(path))[1]
    assert run("show", str(path), "--svg")[1].startswith("<svg")
    assert run("show", str(path), "--depth", "1")[1].count("<=") == 1
    encoded = encode(X, Domain.suggest(X, y, quiet=True), y)
    write_model(grow_forest(encoded, n_trees=2, seed=0), path)
    assert run("show", str(path), "--tree", "1")[0] == 0
    fails_with(Code.BAD_PARAMETER, monkeypatch, capsys, "show", str(path), "--tree", "2")


@pytest.mark.filterwarnings("default::hedgerow.errors.HedgerowWarning")
def test_a_warning_is_printed_without_the_code_it_comes_from(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    domain = Domain(
        attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),),
        target=Target(name="ill", classes=("no", "yes")),
        capacity=100,
    )
    monkeypatch.chdir(tmp_path)
    Path("domain.toml").write_text(domain.to_toml())
    Path("rows.csv").write_text("age,ill\n" + "10,no\n90,yes\n" * 40)
    fit = ["fit", "rows.csv", "--domain", "domain.toml", "--model", "boosting", "--epsilon", "90"]
    more = ["--delta", "0.02", "--trees", "3", "--out", "made", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["hedgerow", *fit, *more])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = capsys.readouterr()
    assert json.loads(printed.out)["private"]
    said = " ".join(printed.err.split())
    assert "warning: delta=0.02 is not below 1 / capacity = 0.01" in said
    assert ".py" not in said
    assert said.count("warning") == 1
    code, text = run("show", "made")[:2]
    assert code == 0
    assert "add up to the log-odds of 'ill' being 'yes'" in text
    assert "  0: of age" in text
    assert run("show", "made", "--svg")[1].startswith("<svg")


def test_show_refuses_a_broken_model(tmp_path: Path, monkeypatch, capsys) -> None:
    path = tmp_path / "tree.json"
    path.write_text("{")
    fails_with(Code.MODEL_FILE_CUT_OFF, monkeypatch, capsys, "show", str(path))


def test_audit_lists_every_kind() -> None:
    rows = json.loads(run("audit", "--list", "--format", "json")[1])["rows"]
    assert {row["kind"] for row in rows} == {"mechanism", "estimator", "protocol"}
    assert {row["sound"] for row in rows} == {True, False}
    assert len({row["target"] for row in rows}) == len(rows)


def test_audit_of_one_target_prints_json_and_passes() -> None:
    code, out = run("audit", "noisy-max@1", "--runs", "20000", "--seed", "1", "--format", "json")
    (row,) = json.loads(out)["rows"]
    assert code == 0
    assert {"target", "sound", "claimed", "proven", "attacked", "runs"} <= set(row)
    assert row["runs"] == 20_000
    assert 0.8 < row["attacked"] < row["proven"] == row["claimed"] == 1.0


def test_audit_needs_a_known_target(monkeypatch, capsys) -> None:
    fails_with(Code.UNKNOWN_TARGET, monkeypatch, capsys, "audit", "hedgehog")
    fails_with(Code.UNKNOWN_TARGET, monkeypatch, capsys, "audit")


def test_help_says_what_arguments_are_for() -> None:
    assert "folder of this party" in run("query", "--help")[1]


HEAVY = {"numba", "scipy.special", "pyarrow", "sklearn", "pandas"}


@pytest.mark.parametrize(
    ("modules", "needed"),
    [
        (["hedgerow.cli"], set()),
        # What `runs` and `models` need.
        (["hedgerow.cli", "hedgerow.parties.runs.client"], set()),
        (["hedgerow.cli", "hedgerow.parties.roles.server_reports"], set()),
        # What `query` needs: it reads a table and encodes it.
        (["hedgerow.cli", "hedgerow.parties.queries.asking"], {"numba", "pyarrow"}),
    ],
)
def test_a_verb_loads_what_it_needs(modules: list[str], needed: set[str]) -> None:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert HEAVY & set(done.stdout.split()) <= needed
