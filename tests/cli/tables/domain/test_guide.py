"""A draft becomes public by what its owner says, in flags or at a terminal, and by nothing else."""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Domain

SUGGEST = ("domain", "suggest", "ward.duckdb", "--sql", "SELECT * FROM people", "--target", "ill")


@pytest.fixture(autouse=True)
def _ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    with duckdb.connect("ward.duckdb") as made:
        made.execute(
            "CREATE TABLE people AS SELECT i AS id, 18 + i % 60 AS age, "
            "CASE WHEN i % 7 > 0 THEN ['a', 'b', 'c'][1 + i % 3] END AS ward, "
            "DATE '2001-02-03' + CAST(i AS int) AS born, i % 2 = 0 AS ill FROM range(90) AS r (i)"
        )


def suggest(*more: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, [*SUGGEST, *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, " ".join(result.stderr.split())


def fails(*more: str) -> Code:
    with pytest.raises(HedgerowError) as caught:
        suggest(*more)
    return caught.value.code


def test_a_draft_shows_what_was_read_and_what_has_to_be_confirmed() -> None:
    text, said = suggest()
    assert re.search(
        r"ward string 13 a, b, c kind, categories, and whether values may be missing", said
    )
    assert re.search(r"born date32\[day\] 0 2001-02-03 to 2001-05-03", said)
    assert "ill bool 0 False, True task, classes" in said
    assert "'id' is another whole number in every row: it may name people" in said
    assert "NOT PUBLIC: the facts of 'id', 'age', 'ward', 'born', 'ill'" in said
    assert text.startswith("# READ FROM THE DATA: facts of 5 of 5 columns")
    assert text.count("read from the data, not public") == 5
    assert Domain.from_toml(text).provenance == "read from data"


def test_flags_name_what_is_public_and_all_of_it_has_to_be_named() -> None:
    flags = ["--leave-out", "id", "--public", "age=0:120", "--public", "ward", "--capacity", "1000"]
    text, said = suggest(*flags, "--public", "born=1900-01-01..2020-12-31")
    part = Domain.from_toml(text)
    assert (part.provenance, part.names) == ("read from data", ("age", "ward", "born"))
    assert "NOT PUBLIC: the facts of 'ill' were" in said
    assert text.count("confirmed as public") == 3
    text, said = suggest(*flags, "--public", "born=1900-01-01..2020-12-31", "--public", "ill")
    whole = Domain.from_toml(text)
    assert (whole.provenance, whole.capacity) == ("confirmed public", 1000)
    assert "NOT PUBLIC" not in said
    assert "not public" not in text
    age, ward, born = whole.attributes
    assert (age.bounds, age.bins, ward.categories) == ((0, 120), 32, ("a", "b", "c"))
    assert born.bounds == (-2_208_988_800, 1_609_372_800)
    other = Domain.from_toml(
        suggest(*flags, "--public", "ward=a,b", "--public", "ill=true,false")[0]
    )
    assert other.attributes[1].categories == ("a", "b")
    assert other.target is not None
    assert other.target.classes == (True, False)


def test_what_was_read_and_what_was_typed_are_told_apart() -> None:
    flags = ("--public", "age=0:120", "--public", "ward", "--public", "ill=false,true")
    text, said = suggest(*flags)
    assert "was read typed in its place to be confirmed" in said
    assert re.search(r"age int64 0 18 to 77 0 to 120 confirmed", said)
    assert re.search(r"ward string 13 a, b, c confirmed", said)
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    assert "# kind: read from the data, bounds: typed; confirmed as public" in comments
    assert "# task: read from the data, classes: typed; confirmed as public" in comments
    read = "# kind, categories, and whether values may be missing: read from the data"
    assert f"{read}, confirmed as public" in comments
    assert "typed" not in suggest("--public", "ward")[1]


def test_of_values_that_were_typed_no_row_changes_the_file() -> None:
    flags = ("--public", "age=0:120", "--public", "ward=a,b,c", "--public", "y=0:1")
    texts = []
    for more in (
        "",
        " UNION ALL SELECT NULL, 'a', 0.5",
        " UNION ALL SELECT 40, NULL, 0.5",
        # Bins of equal width cannot be told apart between these, so that edges are read.
        " UNION ALL SELECT 1e308, 'd', 7 UNION ALL SELECT -1e308, 'd', 7",
    ):
        sql = (
            f"SELECT CAST(age AS double) AS age, ward, 0.25 AS y FROM people WHERE ward <> ''{more}"
        )
        ask = ("domain", "suggest", "ward.duckdb", "--sql", sql, "--target", "y", "--bins", "16")
        made = CliRunner().invoke(app, [*ask, *flags, "--capacity", "100"], catch_exceptions=False)
        texts.append(made.stdout)
    assert len(set(texts)) == 1
    domain = Domain.from_toml(texts[0])
    assert domain.is_public
    assert [one.missing for one in domain.attributes] == ["own bin", "own bin"]
    assert domain.attributes[0].n_values == 16
    # A cell that is no number makes text of a column, of which nobody has spoken.
    words = (*SUGGEST[:4], "SELECT CASE id WHEN 7 THEN '?' ELSE '30' END AS age FROM people")
    for bounds in ("age=0:120", "age=2001-01-01..2020-12-31"):
        result = CliRunner().invoke(app, [*words, "--public", bounds])
        assert isinstance(result.exception, HedgerowError)
        assert result.exception.code is Code.BAD_PARAMETER
        assert "read as text" in result.exception.expected


def test_what_is_no_column_and_no_value_is_refused() -> None:
    assert fails("--public", "wards") is Code.MISSING_COLUMN
    assert fails("--leave-out", "wards") is Code.MISSING_COLUMN
    for wrong in ("age=0", "age=0:many", "ill=3,maybe"):
        assert fails("--public", wrong) is Code.BAD_PARAMETER, wrong
    assert fails("--public", "age=120:0") is Code.BAD_ATTRIBUTE
    assert fails("--public", "ward=a,a") is Code.BAD_ATTRIBUTE
    assert fails("--public", "ill=true,true") is Code.BAD_TARGET
    assert fails("--capacity", "0") is Code.BAD_DOMAIN
    Path("domain.toml").write_text("mine")
    assert fails("--out", "domain.toml") is Code.FILE_EXISTS
    assert Path("domain.toml").read_text() == "mine"


def test_what_is_wrong_with_a_flag_is_said_of_the_flag() -> None:
    for flag in ("age=70:10", "age=10", "wards"):
        with pytest.raises(HedgerowError) as caught:
            suggest("--public", flag)
        assert caught.value.found.startswith(f"--public {flag}: ")
        assert caught.value.fix == f"correct --public {flag}"


def test_values_that_were_read_and_are_not_listed_are_told() -> None:
    said = suggest("--public", "ward=a,b", "--public", "ill=true,false", "--public", "age=0:9")[1]
    assert re.findall(r"Read of .*? and not listed: [^.]*", said) == [
        "Read of 'ward' and not listed: 'c'"
    ]


def test_the_next_command_can_be_typed() -> None:
    flags = [word for name in ("id", "age", "ward", "born", "ill") for word in ("--public", name)]
    assert suggest(*flags, "--out", "made.toml")[1].endswith("made.toml: written")
    assert suggest("--capacity", "100", "--out", "some.toml")[1].endswith("some.toml: written")
    said = suggest(*flags, "--capacity", "100", "--out", "made.toml", "--force")[1]
    line = said.partition("next, ")[2]
    assert line == ("hedgerow domain check made.toml ward.duckdb --sql 'SELECT * FROM people'")
    checked = CliRunner().invoke(app, shlex.split(line)[1:])
    assert checked.exit_code == 0, checked.output


def test_a_place_that_takes_no_file_is_refused_before_the_table_is_read() -> None:
    Path("file").write_text("mine")
    Path("folder").mkdir()
    for out in ("none/domain.toml", "file/domain.toml", "folder"):
        ask = ("domain", "suggest", "none.csv", "--out", out, "--force")
        result = CliRunner().invoke(app, ask)
        assert isinstance(result.exception, HedgerowError)
        assert result.exception.code is Code.STATE_NOT_WRITTEN, out


def test_what_was_answered_is_printed_where_it_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = CliRunner().invoke(app, [*SUGGEST, "--public", "age=0:120", "--out", "made.toml"])
    assert isinstance(result.exception, HedgerowError)
    assert result.exception.code is Code.STATE_NOT_WRITTEN
    assert Domain.from_toml(result.stdout).attributes[1].bounds == (0, 120)
    assert not Path("made.toml").exists()


def test_dates_are_days_or_seconds() -> None:
    _, said = suggest("--public", "born=0:1700000000")
    assert "1970-01-01 to 2023-11-14 22:13:20" in said
    for beyond in ("0:1700000000000", "nan:0", "0:inf"):
        with pytest.raises(HedgerowError, match=r"H501.*seconds since 1970"):
            suggest("--public", f"born={beyond}")


def test_dates_beyond_all_calendars_are_shown_as_numbers() -> None:
    days = pa.array([0, 1 << 30], pa.date32())
    pa.parquet.write_table(pa.table({"born": days}), "late.parquet")
    result = CliRunner().invoke(app, ["domain", "suggest", "late.parquet"], catch_exceptions=False)
    assert result.exit_code == 0


def test_names_with_odd_characters_stay_in_their_comments(tmp_path: Path) -> None:
    Path("odd.csv").write_text('"a=b\n[x]",c\n1,y\n2,z\n')
    odd = ("domain", "suggest", "odd.csv", "--public", "a=b\n[x]", "--public", "c", "--draft")
    result = CliRunner().invoke(app, odd, catch_exceptions=False)
    domain = Domain.from_toml(result.stdout)
    assert domain.names == ("a=b\n[x]", "c")
    assert domain.is_public


def at_a_terminal(answers: list[str], *more: str) -> str:
    """Run the verb in a terminal of its own; answer each question once it stands there."""
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "hedgerow.cli", *SUGGEST, "--out", "domain.toml", *more]
    running = subprocess.Popen(
        program, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, close_fds=True
    )
    os.close(theirs)
    said, left, end = "", list(answers), time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([ours], [], [], 1)
        try:
            said += os.read(ours, 4096).decode() if ready else ""
        except OSError:  # it has ended
            break
        if left and re.search(r"Enter\]: $", said):
            os.write(ours, (left.pop(0) + "\n").encode())
            said += "\n"
    assert running.wait(10) == 0, said
    os.close(ours)
    assert left == [], said
    return said


def test_at_a_terminal_every_column_is_asked_about() -> None:
    answers = ["x", "0:many", "0:120", "y", "1900-01-01..2020-12-31", "y", "none", "1000"]
    said = at_a_terminal(answers)
    assert "it may name people" in said
    assert "'many'; expected a number" in " ".join(said.split())
    text = Path("domain.toml").read_text()
    domain = Domain.from_toml(text)
    assert domain.names == ("age", "ward", "born")
    assert (domain.provenance, domain.capacity) == ("confirmed public", 1000)
    assert domain.attributes[0].bounds == (0, 120)
    # Whoever presses Enter confirms nothing.
    at_a_terminal([""] * 6, "--force")
    assert Domain.from_toml(Path("domain.toml")).provenance == "read from data"
