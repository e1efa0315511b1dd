"""Verbs on a database in place of a file: the same models, and the password nowhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.own_tables import QUERY_SECONDS, own_table
from hedgerow.parties.store.uploads import read_manifest
from hedgerow.parties.topdown.part import encoded_table
from hedgerow.tables import SqlQuery
from hedgerow.tables.absorbing import AbsorbedRows
from tests.estimators.one_table import people, write_files
from tests.parties.roles import upload_servers
from tests.postgres import ESCAPED, PASSWORD, Server, serving_postgres

SQL = "SELECT age, ward, ill, cost, id FROM people ORDER BY id"
FIT = ("--domain", "domain.toml", "--epsilon", "1", "--seed", "3", "--quiet")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_postgres() as made:
        yield made


def in_duckdb(path: Path, rows: pa.Table) -> None:
    numbered = rows.append_column("id", pa.array(range(rows.num_rows)))
    with duckdb.connect(path) as made:
        made.register("rows_", numbered)
        made.execute("CREATE OR REPLACE TABLE people AS SELECT * FROM rows_")


def in_postgres(server: Server, rows: pa.Table) -> None:
    from adbc_driver_postgresql import dbapi

    numbered = rows.append_column("id", pa.array(range(rows.num_rows)))
    with dbapi.connect(server.uri()) as made, made.cursor() as cursor:
        cursor.adbc_ingest("people", numbered, mode="replace")
        made.commit()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    in_duckdb(Path("ward.duckdb"), people())
    Path("people.sql").write_text(f"-- one row per person\n{SQL};\n")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        run(*arguments)
    return caught.value


@pytest.mark.parametrize("model", ["tree", "median-forest", "boosting"])
def test_a_fit_of_a_query_is_that_of_the_file(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    batches = SqlQuery.batches
    monkeypatch.setattr(SqlQuery, "batches", lambda self: asked.append(self.sql) or batches(self))
    more = (*FIT, "--model", model, *(("--delta", "1e-6") if model == "boosting" else ()))
    run("fit", "people.csv", *more, "--out", "file")
    run("fit", "ward.duckdb", "--sql", "people.sql", *more, "--out", "query")
    assert Path("file/model.json").read_bytes() == Path("query/model.json").read_bytes()
    # Another run of it might find other rows, or another order.
    assert len(asked) == 1


def test_one_query_for_all_verbs_of_one_table(server: Server) -> None:
    in_postgres(server, people())
    for where in (server.uri(), "duckdb:ward.duckdb"):
        ask = (where, "--sql", SQL, "--sql-timeout", "60")
        assert "600 rows fit" in run("domain", "check", "domain.toml", *ask, "--ids", "id")
        run("fit", *ask, *FIT, "--model", "tree", "--out", "made.json", "--force")
        answers = run("predict", "made.json", *ask)
        assert answers == run("predict", "made.json", "people.csv")
        assert 'name = "ward"' in run("domain", "suggest", *ask, "--target", "ill")
        texts = [path.read_text(errors="replace") for path in Path().glob("made*")]
        assert not any(PASSWORD in text or ESCAPED in text for text in texts)


@pytest.mark.parametrize("model", ["tree", "median-forest"])
def test_no_verb_repeats_an_address_that_it_takes_for_a_path(model: str) -> None:
    run("fit", "people.csv", *FIT, "--model", "tree", "--out", "made.json")
    more = (*FIT, "--model", model, "--out", "x")
    for table in ("host=db password=s3cret", "postgresql//alice:s3cret@db/ward", "=" * 300):
        for ask in ((), ("--sql", SQL)):
            for verb, after in (
                (("domain", "suggest"), ()),
                (("domain", "check", "domain.toml"), ()),
                (("fit",), more),
                (("predict", "made.json"), ()),
            ):
                error = refused(*verb, table, *ask, *after)
                assert error.code in (Code.NO_DATABASE, Code.UNREADABLE_FILE)
                assert "not repeated" in error.found
                assert "s3cret" not in str(error)


def test_one_person_is_one_row() -> None:
    twice = SQL.replace("ORDER BY", "UNION ALL SELECT age, ward, ill, cost, 7 FROM people ORDER BY")
    check = ("domain", "check", "domain.toml", "ward.duckdb", "--ids", "id", "--format", "json")
    done = CliRunner().invoke(app, [*check, "--sql", twice])
    problems = {problem["error"]: problem for problem in json.loads(done.stdout)["problems"]}
    assert done.exit_code == 2
    assert "601 rows of column 'id'" in problems["H110"]["found"]


def test_which_flags_go_together() -> None:
    assert "--sql" in refused("fit", "ward.duckdb", *FIT, "--out", "x").fix
    assert "--sql" in refused("fit", "postgresql:///ward", *FIT, "--out", "x").fix
    error = refused("fit", "people.csv", "--sql", SQL, *FIT, "--out", "x")
    assert error.code is Code.BAD_PARAMETER
    refused("fit", "people.csv", "--sql-timeout", "3", *FIT, "--out", "x")
    error = refused("fit", "ward.duckdb", "--sql", "gone.sql", *FIT, "--out", "x")
    assert (error.code, "gone.sql" in error.found) == (Code.BAD_QUERY, True)
    assert not Path("x").exists()


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory):
    return upload_servers.consortium(tmp_path_factory.mktemp("wards"))


def mentions(folder: Path, *texts: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [p for p in files if any(text.encode() in p.read_bytes() for text in texts)]


def test_an_upload_keeps_no_password_and_knows_its_rows(server: Server, parties) -> None:
    rows = upload_servers.people().drop_columns(["id"])
    in_postgres(server, rows)
    for name in (*upload_servers.SERVERS, "north"):
        with (parties[name].folder / "policy.toml").open("a") as policy:
            policy.write("\nstaff = 1.0\n")
    Path("domain.toml").write_text(upload_servers.DOMAIN.to_toml())
    north = str(parties["north"].folder)
    ask = ("upload", server.uri(), north, "--sql", "SELECT * FROM people ORDER BY id")
    with upload_servers.serving(parties):
        text = run(*ask, "--domain", "domain.toml", "--population", "patients", "--id", "north-1")
        assert "100 slots" in text
        manifest = read_manifest(parties["birch"].state, "north-1")
        assert manifest.domain.names == upload_servers.DOMAIN.names
        other = (*ask, "--domain", "domain.toml", "--population", "staff", "--id", "north-2")
        assert refused(*other).code is Code.BAD_UPLOAD
        mistaken = ("upload", f"host=db password={PASSWORD}", north, *other[5:])
        error = refused(*mistaken)
        assert (error.code, PASSWORD in str(error)) == (Code.UNREADABLE_FILE, False)
    assert mentions(parties["north"].folder.parent, PASSWORD, ESCAPED) == []
    error = refused(*ask, "--here", "--population", "patients")
    assert "PGPASSFILE" in error.fix
    assert PASSWORD not in str(error)
    assert ESCAPED not in str(error)


def test_a_query_that_stays_here_is_run_anew(parties, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rows = parties["south"], upload_servers.people().drop_columns(["id"])
    in_duckdb(Path("ward.duckdb"), rows)
    pa.csv.write_csv(rows, "rows.csv")
    ask = ("--sql", "SELECT age, ward, sex, ill FROM people ORDER BY id", "--sql-timeout", "9")
    here = ("upload", "ward.duckdb", str(config.folder), "--here", "--population", "patients")
    told = json.loads(run(*here, *ask, "--format", "json"))
    assert told["columns"] == ["age", "ward", "sex", "ill"]
    assert own_table(config.state, "patients").path.timeout == 9.0
    run(*here, *ask[:2])
    kept = own_table(config.state, "patients")
    assert kept.path.timeout == QUERY_SECONDS
    monkeypatch.chdir("/")
    domain = upload_servers.DOMAIN
    found = encoded_table(kept.path, domain, AbsorbedRows())
    file = Path(told["table"]).with_name("rows.csv")
    np.testing.assert_array_equal(found.bins, encoded_table(file, domain, AbsorbedRows()).bins)
    in_duckdb(Path(told["table"]), rows.slice(0, 10))
    assert encoded_table(kept.path, domain, AbsorbedRows()).n_slots == 10
