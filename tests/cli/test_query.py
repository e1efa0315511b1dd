"""``hedgerow query``, as analysts type it."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app, main
from hedgerow.errors import Code
from hedgerow.tables import encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, Town, encoded, table

runner = CliRunner()
N = 5


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    town = Town(tmp_path_factory.mktemp("query"), queries_per_analyst=30)
    town.train("m")
    town.train("counts", noise="splits+leaves", epsilon=1000.0)
    with town.open():
        yield town


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    header = ",".join(DOMAIN.names)
    np.savetxt(path, table(N)[0], fmt="%d", delimiter=",", header=header, comments="")
    return path


def run(town: Town, *arguments: str) -> str:
    folder = str(town.configs["ann0"].folder)
    result = runner.invoke(app, ["query", *arguments, folder], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def expected() -> list[str]:
    tree = grow_id3(encoded(), criterion="max", max_depth=3)
    index = tree.predict_class(encode(table(N)[0], DOMAIN).bins)
    return [DOMAIN.target.classes[i] for i in index]


def test_json(town: Town, rows: Path) -> None:
    found = json.loads(run(town, "m", str(rows), "--format", "json"))
    assert found["ok"] is True
    assert [row["class"] for row in found["rows"]] == expected()
    assert [row["row"] for row in found["rows"]] == [0, 1, 2, 3, 4]
    again = json.loads(run(town, "m", str(rows), "--format", "json"))
    assert again["left"] == found["left"] - N


def test_csv(town: Town, rows: Path) -> None:
    found = list(csv.DictReader(io.StringIO(run(town, "m", str(rows), "--format", "csv"))))
    assert [row["class"] for row in found] == expected()


def test_probabilities(town: Town, rows: Path) -> None:
    text = run(town, "counts", str(rows), "--proba", "--format", "csv")
    for row in csv.DictReader(io.StringIO(text)):
        shares = {c: float(row[f"p({c})"]) for c in DOMAIN.target.classes}
        assert sum(shares.values()) == pytest.approx(1.0)
        assert shares[row["class"]] == max(shares.values())


def test_text(town: Town, rows: Path) -> None:
    text = run(town, "m", str(rows))
    for label in expected():
        assert label in text


def refused(
    town: Town, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> str:
    folder = str(town.configs["ann0"].folder)
    monkeypatch.setattr(sys, "argv", ["hedgerow", "query", *arguments, folder])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_refusals_have_numbers_and_say_what_is_left(
    town: Town, rows: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    many = tmp_path / "many.csv"
    header = ",".join(DOMAIN.names)
    np.savetxt(many, table(31)[0], fmt="%d", delimiter=",", header=header, comments="")
    for code, arguments in (
        (Code.BUDGET_EXCEEDED, ("counts", str(many))),
        (Code.BAD_PARAMETER, ("m", str(rows), "--proba")),
        (Code.UNKNOWN_MODEL, ("none", str(rows))),
        (Code.BAD_NAME, ("../m", str(rows))),
        (Code.BAD_PARAMETER, ("m", str(rows), "--timeout", "0")),
        (Code.UNREADABLE_FILE, ("m", str(tmp_path / "none.csv"))),
    ):
        text = refused(town, capsys, monkeypatch, *arguments)
        assert text.startswith(f"{code.number} ")
        assert "Traceback" not in text
        if code is Code.BUDGET_EXCEEDED:
            assert "more rows of counts" in text
