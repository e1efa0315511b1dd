"""Every Python block of the README and the docs runs; every link and file that is named is there.

Every command in them is one that the program has, and consortia are founded as printed.
"""

import re
import shlex
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from typer.testing import CliRunner

import hedgerow
from hedgerow.cli.main import app
from hedgerow.parties.runs.jobs import load_job
from hedgerow.protocols.registry import PROTOCOLS
from tests.command_lines import check_command
from tests.test_readme_commands import DOMAIN, blocks_of
from tests.test_readme_commands import commands as readme_commands

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name / "README.md" for name in ("examples", "examples/flower", "tests/vectors")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
FILE = re.compile(r"`((?:src|tests|tools|bench|docs|examples|reproduce)/[\w./-]+\.\w+)`")
TOML = re.compile(r"^```toml\n(.*?)^```", re.M | re.S)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The blocks of a page share one namespace, as a reader would type them one after another;
    # they find the examples by the same relative path as in a checkout.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(BLOCK.findall(page.read_text()))
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    assert [name for name in FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


def test_every_block_that_newcomers_read_is_run() -> None:
    """Those of the README and of the tutorials; what runs a block of each language is named here.

    Python: above. Console and TOML: `tests/test_readme_commands.py`, those of a consortium by
    `make slow`. Without a language: what a block printed, which is compared with nothing because
    noise is in it, and the two commands of make, which are `tests/test_examples.py` and this run.
    """
    newcomers = [ROOT / "README.md", *sorted((ROOT / "docs/tutorial").glob("*.md"))]
    found: dict[str, list[str]] = {}
    for page in newcomers:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
            found.setdefault(language, []).append(text)
    assert set(found) == {"python", "console", "toml", ""}
    run = {
        language: [
            text for page in ("start", "three-machines") for text in blocks_of(page, language)
        ]
        for language in ("console", "toml")
    }
    assert sorted(found["console"]) == sorted([readme_commands(), *run["console"]])
    assert found["toml"] == run["toml"]
    assert [text.split()[0] for text in found[""]] == ["make", "0.909"]


def test_every_estimator_stands_in_the_table_of_trust_models() -> None:
    found = {name: getattr(hedgerow, name) for name in hedgerow.__all__}
    estimators = {
        name
        for name, value in found.items()
        if isinstance(value, type) and issubclass(value, BaseEstimator)
    }
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line[:1] == "|"]
    named = set(re.findall(r"`(\w+?(?:Classifier|Regressor|Regression))\b", "\n".join(rows)))
    assert named == estimators


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_threat_models_have_every_protocol(protocol: str) -> None:
    text = (ROOT / "docs/explanation/threat-models.md").read_text()
    (*_, table), sections = (
        text.partition("\n## ")[0].split("\n\n| "),
        text.count("\n- **May collude:**"),
    )
    assert f'`"{protocol}"`' in table
    for part in ("Is learned", "Is not promised", "If somebody deviates"):
        assert text.count(f"\n- **{part}:**") == sections


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of every command of the program on a page, as a shell reads them."""
    found = []
    for block in CONSOLE.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"; do|;|&(?!&)|\|", line):
                words = shlex.split(part, comments=True)
                if words[:1] == ["hedgerow"]:
                    found.append(words[1:])
    return found


WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_are_those_of_the_program(page: Path) -> None:
    for words in commands(page):
        check_command(words)


FOUNDING = [
    pytest.param(words, id=f"{page.name}-{i}")
    for page in WITH_COMMANDS
    for i, words in enumerate(commands(page))
    if words[:2] == ["consortium", "new"]
]


@pytest.mark.parametrize("words", FOUNDING)
def test_consortia_are_founded_as_printed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (tmp_path / words[2]).is_dir()


def test_the_jobs_of_the_examples_are_jobs(tmp_path: Path) -> None:
    """Those of owners, of sites and of peers; the one of three servers is that of the reference."""
    page = (ROOT / "docs/how-to/consortium.md").read_text()
    jobs = [text for text in TOML.findall(page) if "protocol =" in text]
    (tmp_path / "domain.toml").write_text(DOMAIN)
    found = []
    for text in jobs:
        path = tmp_path / "job.toml"
        path.write_text(text)
        found.append(load_job(path).protocol)
    assert found == ["topdown", "vertical-id3", "pivot-tree"]
