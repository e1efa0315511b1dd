"""What errors advise at a shell: flags and files, and no Python."""

import re
import sys
from pathlib import Path

import pytest
from rich.table import Table

from hedgerow.cli.main import main
from hedgerow.cli.printing import advice, parse_names, print_line, print_table
from hedgerow.errors import Code

DOMAIN = """\
capacity = 100
[target]
name = "ill"
classes = ["no", "yes"]
[[attributes]]
name = "age"
kind = "numeric"
bounds = [0, 100]
bins = 4
"""
ROWS = "age,ill\n" + "10,no\n90,yes\n" * 20
FIT = ["fit", "rows.csv", "--domain", "domain.toml", "--out", "made", "--quiet"]
TREE = [*FIT, "--model", "tree"]
BOOSTING = [*FIT, "--model", "boosting", "--epsilon", "1"]
# A call, a keyword argument, or a name that only Python has.
PYTHON = re.compile(
    r"\w\(\)|\b[a-z_]+=|\b(Domain[.(]|DPTree|CART)|\b[a-z]+_[a-z_]+\b|domain\.(?!toml)"
)


@pytest.mark.parametrize(
    ("number", "words", "arguments", "domain"),
    [
        ("H202", 'provenance = "confirmed public"', TREE, 'provenance = "read from data"\n'),
        ("H208", "capacity = 1000", TREE, None),
        ("H201", "--epsilon 1", [*TREE, "--epsilon", "0"], ""),
        ("H201", "--epsilon 1", [*TREE, "--epsilon", "inf"], ""),
        ("H501", "--depth must be", [*TREE, "--depth", "0"], ""),
        ("H501", "--depth 0", [*TREE, "--depth", "0"], ""),
        ("H501", "--trees", [*BOOSTING, "--delta", "1e-6", "--trees", "0"], ""),
        ("H501", "--leaves", [*BOOSTING, "--delta", "1e-6", "--leaves", "0"], ""),
        ("H501", "--delta", [*BOOSTING, "--delta", "2"], ""),
        ("H501", "--seed", [*TREE, "--seed", "-1"], ""),
        ("H114", "hedgerow domain suggest", TREE, "nonsense = 3\n"),
        ("H101", 'missing = "own bin"', [*TREE, "--missing", "--bad-rows", "error"], ""),
    ],
)
def test_errors_of_a_fit_speak_of_flags_and_files(
    tmp_path: Path, monkeypatch, capsys, number, words, arguments, domain
) -> None:
    monkeypatch.chdir(tmp_path)
    text = DOMAIN.removeprefix("capacity = 100\n") if domain is None else domain + DOMAIN
    Path("domain.toml").write_text(text)
    gap = ",yes\n" if "--missing" in arguments else ""
    Path("rows.csv").write_text(ROWS + gap)
    arguments = [word for word in arguments if word != "--missing"]
    if "--epsilon" not in arguments:
        arguments = [*arguments, "--epsilon", "1"]
    monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert number in said
    assert words in said
    assert PYTHON.search(said.partition("expected:")[2]) is None, said


def test_texts_for_shells_are_without_python() -> None:
    texts = {code: code.spec.shell for code in Code if code.spec.shell}
    assert Code.MISSING_DOMAIN in texts
    for code, text in texts.items():
        assert PYTHON.search(text) is None, code
        assert not text.endswith(".")
        assert f"**At a shell:** {text}." in code.page()


def test_advice_for_shells_is_left_as_it_is() -> None:
    error = Code.MISSING_CAPACITY.error(found="no slots", fix="pass --slots")
    assert advice(error, "upload").fix == "pass --slots"
    assert "capacity = 1000" in advice(Code.MISSING_CAPACITY.error(found="none"), "upload").fix


@pytest.mark.parametrize("verb", ["predict", "query"])
def test_who_asks_a_model_is_told_to_correct_rows_and_no_domain(verb: str) -> None:
    for code in (Code.MISSING_VALUE, Code.UNKNOWN_CATEGORY, Code.OUTSIDE_BOUNDS):
        fix = advice(code.error(found="3 rows"), verb).fix
        assert "rows" in fix
        assert "domain" not in fix
    error = Code.MISSING_COLUMN.error(found="no ids", fix="name the column of ids with --ids")
    assert advice(error, verb).fix == "name the column of ids with --ids"
    assert "domain" in advice(Code.UNKNOWN_CATEGORY.error(found="3 rows"), "fit").fix


@pytest.mark.parametrize("verb", ["train", "runs"])
def test_verbs_without_flags_for_tables_do_not_advise_them(verb: str) -> None:
    error = Code.OTHER_DELIMITER.error(found="semicolons", fix="pass --delimiter ';'")
    assert advice(error, verb).fix == "write the file with commas between the cells"


@pytest.mark.parametrize(
    ("text", "names"),
    [("", []), ("  ", []), ("a", ["a"]), ("a, b,c ", ["a", "b", "c"]), ("a,,b", ["a", "", "b"])],
)
def test_lists(text: str, names: list[str]) -> None:
    assert parse_names(text) == names


def test_no_name_is_cut_however_narrow_the_terminal_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    names = [f"{'readmission-of-the-patients-2026'}-{digit * 12}" for digit in "abc"]
    table = Table("run", "model", "since", "alder")
    for name in names:
        table.add_row(name, name[:31], "2026-11-18 02:00", "failed (H894) and more words")
    print_table(table)
    text = capsys.readouterr().out
    assert all(f" {name} " in text for name in names)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    small = Table("run")
    small.add_row("a")
    print_table(small)
    assert max(map(len, capsys.readouterr().out.splitlines())) < 60


def test_a_line_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("north:\x1b[2J \u202edone\n  next")
    assert capsys.readouterr().out == "north:\\x1b[2J \\u202edone\n  next\n"
