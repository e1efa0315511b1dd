"""What the reproductions share: one rule for verdicts, one command for all papers."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import reproduce.__main__ as command
from reproduce.papers import STOPPED, run_within
from reproduce.report import WORDS, Verdict, number, verdict_on
from tests.reproduce.small_version import ROOT


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ([True], "holds"),
        ([True] * 24, "holds"),
        ([True] * 13 + [False] * 11, "holds in part"),
        ([True] * 12 + [False] * 12, "does not hold"),
        ([True] + [False] * 23, "does not hold"),
        ([], "does not hold"),
    ],
)
def test_more_than_half_of_the_settings_is_a_part(settings: list[bool], verdict: Verdict) -> None:
    assert verdict_on(settings) == verdict


def test_without_a_number_all_papers_are_run_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[tuple[Any, ...]] = []

    def run_within(minutes: float, work: Any, paper: str, out: Path, *words: bool) -> int:
        run.append((minutes, paper, out, *words))
        return STOPPED if paper == "001" else 0

    monkeypatch.setattr(command, "run_within", run_within)
    called(monkeypatch, "--json", "--out", str(tmp_path), "--minutes", "7", status=STOPPED)
    every = ("000", "001", "002", "003", "004")
    assert run == [(7.0, paper, tmp_path / paper, False, False, True) for paper in every]
    called(monkeypatch, "003", "--quick", "--out", str(tmp_path))
    assert run[5:] == [(command.MINUTES, "003", tmp_path, True, False, False)]


def called(monkeypatch: pytest.MonkeyPatch, *words: str, status: int = 0) -> None:
    monkeypatch.setattr("sys.argv", ["reproduce", *words])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == status


def test_a_paper_that_takes_too_long_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    assert run_within(1.0, sys.exit, 7) == 7
    began = time.monotonic()
    assert run_within(0.1, sleep_in_another_process, tmp_path / "pid") == STOPPED
    assert time.monotonic() - began < 60
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 20
    # Whoever inherits the process has to take note of its end.
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def sleep_in_another_process(told: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    told.write_text(str(other.pid))
    other.wait()


def test_what_is_said_of_runs_changes_no_commit() -> None:
    files = {path.stem for path in (ROOT / "reproduce").rglob("*.py")}
    assert set(WORDS) <= files


def test_numbers_for_people() -> None:
    assert [number(x) for x in (0.12346, 12.3456, 1234.5, 98765.4)] == [
        "0.1235",
        "12.35",
        "1,234",
        "98,765",
    ]
    assert number(123.4, 3) == "123"
