"""What the reproductions share: one rule for verdicts, one command for all papers."""

import importlib
import json
from pathlib import Path

import pytest

import reproduce.__main__ as command
from reproduce.report import Verdict, verdict_on


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run: list[Path] = []
    for name in command.PAPERS.values():
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "run", lambda out, **_: run.append(out) or {"rows": []})
    monkeypatch.setattr("sys.argv", ["reproduce", "--json", "--out", str(tmp_path)])
    command.main()
    assert run == [tmp_path / paper for paper in ("000", "001", "002", "003", "004")]
    printed = [json.loads(line)["seed"] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["000", "001", "002", "003", "004"]
    monkeypatch.setattr("sys.argv", ["reproduce", "003", "--json", "--out", str(tmp_path)])
    command.main()
    assert run[5:] == [tmp_path]
