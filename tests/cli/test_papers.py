"""`hedgerow papers` names what every estimator and protocol says it is after."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hedgerow
from hedgerow.cli.main import app
from hedgerow.cli.papers import known_papers
from hedgerow.errors import HedgerowError

SOURCE = Path(hedgerow.__file__).parent
ROOT = Path(__file__).parents[2]


def run(*words: str) -> str:
    return CliRunner().invoke(app, ["papers", *words], catch_exceptions=False).stdout


def test_every_entry_is_read_whole_and_is_used() -> None:
    text = (SOURCE / "references.bib").read_text(encoding="utf-8")
    found = known_papers()
    assert [one.key for one in found] == re.findall(r"^@\w+\{(\w+),", text, re.M)
    for one in found:
        said = " ".join((*one.authors, one.title, one.where))
        assert one.title
        assert one.where
        assert not re.search(r"[{}\\]", said), said
        others = (ROOT / "reproduce").rglob("*.py") if not one.modules else ()
        assert one.modules or any(one.key in path.read_text() for path in others), one.key
    assert [one.key for one in found if not (one.authors and one.year)] == ["hiddentrees"]


def test_estimators_stand_with_what_their_docstrings_name() -> None:
    stated = {
        (one.key, name) for one in known_papers() for name in one.estimators if name[0].isupper()
    }
    for name in hedgerow.__all__:
        text = getattr(hedgerow, name).__doc__ or ""
        for key in re.findall(r"Papers?: (\w+)", text):
            assert (key, name) in stated


def test_a_word_finds_a_paper_and_all_who_name_it() -> None:
    (row,) = json.loads(run("papernot", "--format", "json"))["rows"]
    assert row["key"] == "papernot2017pate"
    assert row["authors"][1] == "Abadi, Martín"
    assert row["estimators"] == ["HiddenForestClassifier"]
    assert row["rooms"] == ["protocols/votes"]
    assert "hedgerow.protocols.votes.votes" in run("papernot2017pate")
    assert "HiddenForestClassifier" in run("hidden")
    assert len(json.loads(run("--format", "json"))["rows"]) == len(known_papers())


def test_a_word_of_no_paper_is_refused() -> None:
    with pytest.raises(HedgerowError, match="H501"):
        run("phlogiston")
