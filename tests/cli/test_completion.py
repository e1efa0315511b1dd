"""Completion in real shells: their own scripts, and what they are told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `hedgerow` is this program."""
    program = tmp_path / "bin" / "hedgerow"
    program.parent.mkdir()
    # Under `python -m` it has another name.
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom hedgerow.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o700)
    return os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


def told(shell: dict[str, str], folder: Path, line: str) -> list[str]:
    """Type a line into bash and press the tabulator; return what it offers."""
    words = line.split(" ")
    script = (
        'eval "$(_HEDGEROW_COMPLETE=source_bash hedgerow)"\n'
        f'COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}")\nCOMP_CWORD={len(words) - 1}\n'
        "complete -p hedgerow >&2\n"
        "_hedgerow_completion hedgerow\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=shell, capture_output=True, text=True, check=True
    )
    assert "_hedgerow_completion" in done.stderr
    return done.stdout.split()


def test_bash_completes_verbs_options_and_choices(shell: dict[str, str], tmp_path: Path) -> None:
    assert told(shell, tmp_path, "hedgerow up") == ["upload", "uploads"]
    assert told(shell, tmp_path, "hedgerow fit --ep") == ["--epsilon"]
    assert told(shell, tmp_path, "hedgerow fit --model me") == ["median-forest"]
    assert told(shell, tmp_path, "hedgerow errors H20") == [f"H20{i}" for i in range(1, 10)]
    assert told(shell, tmp_path, "hedgerow papers wu2") == ["wu2020pivot"]


def test_bash_completes_what_a_party_keeps(shell: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "alder"
    folder.mkdir(mode=0o700)
    store = open_store(StateFolder(folder / "state"))
    run = {"job": "{}", "state": "done", "attempt": 1, "generation": 1, "error": None}
    times = {"closed": 1, "created": 1.0, "changed": 1.0, "by": "north"}
    model = {"manifest": "{}", "ledger": "{}", "leakage": "{}", "tree": None}
    with store.transaction("test") as made:
        for name in ("wards-01", "wards-02", "other-03"):
            made.put("runs", {"id": name, **run, **times})
        made.put("models", {"name": "readmission-1", **model})
    assert sorted(told(shell, folder, "hedgerow runs show wards-")) == ["wards-01", "wards-02"]
    assert told(shell, folder, "hedgerow models show re") == ["readmission-1"]
    assert told(shell, folder, "hedgerow query re") == ["readmission-1"]
    # A folder without a party has nothing to tell, and gets nothing.
    assert told(shell, tmp_path, "hedgerow runs show wards-") == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_scripts_are_those_of_the_shell(shell: dict[str, str], name: str) -> None:
    script = subprocess.run(
        ["hedgerow"],
        env=shell | {"_HEDGEROW_COMPLETE": f"source_{name}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    marks = {"bash": "complete -o default -F", "zsh": "#compdef hedgerow", "fish": "complete "}
    assert marks[name] in script
    assert f"_HEDGEROW_COMPLETE=complete_{name}" in script
    if shutil.which(name):
        subprocess.run([name, "-n"], input=script, text=True, check=True)


def test_zsh_is_told_what_errors_mean(shell: dict[str, str]) -> None:
    done = subprocess.run(
        ["hedgerow"],
        env=shell
        | {"_HEDGEROW_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "hedgerow errors H201"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith('_arguments \'*: :(("H201":"')
