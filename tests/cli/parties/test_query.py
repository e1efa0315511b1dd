"""``hedgerow query``, as analysts type it."""

import csv
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app, main
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, Town, encoded, table

runner = CliRunner()
N = 5


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    town = Town(tmp_path_factory.mktemp("query"), queries_per_analyst=40)
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


def test_a_beginning_of_the_name(town: Town, rows: Path) -> None:
    found = json.loads(run(town, "coun", str(rows), "--format", "json"))
    assert (found["model"], len(found["rows"])) == ("counts", N)
    town.publish("country")
    with pytest.raises(HedgerowError, match=r"country, counts") as caught:
        run(town, "coun", str(rows))
    assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError) as caught:
        run(town, "nothing", str(rows))
    assert caught.value.code is Code.UNKNOWN_MODEL


def test_a_timeout_is_named_as_it_is_given(town: Town, rows: Path) -> None:
    with pytest.raises(HedgerowError, match=r"H501.*--timeout above 0"):
        run(town, "m", str(rows), "--timeout", "0")


def test_probabilities(town: Town, rows: Path) -> None:
    text = run(town, "counts", str(rows), "--proba", "--format", "csv")
    for row in csv.DictReader(io.StringIO(text)):
        shares = {c: float(row[f"p({c})"]) for c in DOMAIN.target.classes}
        assert sum(shares.values()) == pytest.approx(1.0)
        assert shares[row["class"]] == max(shares.values())


def test_a_file_of_answers(town: Town, rows: Path, tmp_path: Path) -> None:
    left = town.analyst(0).find("m").left
    out = tmp_path / "answers.csv"
    found = json.loads(run(town, "m", str(rows), "--out", str(out), "--format", "json"))
    assert (found["out"], found["rows"], found["left"]) == (str(out), N, left - N)
    assert pyarrow.csv.read_csv(out).to_pydict() == {"row": [*range(N)], "class": expected()}
    # What would be refused is refused before it is charged.
    for bad in (out, tmp_path / "answers.txt"):
        with pytest.raises(HedgerowError) as caught:
            run(town, "m", str(rows), "--out", str(bad))
        assert caught.value.code in (Code.FILE_EXISTS, Code.UNREADABLE_FILE)
    assert town.analyst(0).find("m").left == left - N
    parquet = tmp_path / "answers.parquet"
    assert f"{N} rows: {parquet}" in run(town, "m", str(rows), "--out", str(parquet), "--ids", "a1")
    ids = table(N)[0][:, 1].tolist()
    assert pyarrow.parquet.read_table(parquet).to_pydict() == {"id": ids, "class": expected()}
    run(town, "m", str(rows), "--out", str(out), "--force")
    with pytest.raises(HedgerowError) as caught:
        run(town, "m", str(rows), "--ids", "patient")
    assert caught.value.code is Code.MISSING_COLUMN


def test_many_rows_of_what_is_published(town: Town, tmp_path: Path) -> None:
    town.publish("shown")
    many, n = tmp_path / "many.csv", 100_000
    columns = dict(zip(DOMAIN.names, table(n)[0].T, strict=True))
    pyarrow.csv.write_csv(pa.table(columns), many)
    out, begun = tmp_path / "answers.parquet", time.process_time()
    run(town, "shown", str(many), "--proba", "--out", str(out))
    # A loop over rows takes longer, and a table for people takes minutes.
    assert time.process_time() - begun < 5.0
    found = pyarrow.parquet.read_table(out)
    assert found.column_names == ["row", "class", *(f"p({c})" for c in DOMAIN.target.classes)]
    assert found.num_rows == n
    text = run(town, "shown", str(many))
    assert text.startswith('"row","class"')
    assert len(text.splitlines()) == n + 1


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
    np.savetxt(many, table(41)[0], fmt="%d", delimiter=",", header=header, comments="")
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
