"""Queries on DuckDB and on a real PostgreSQL: what they read, what they refuse and do not say."""

import datetime as dt
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import hedgerow
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import (
    Attribute,
    Batches,
    Domain,
    SqlQuery,
    Target,
    encode,
    read_batches,
    read_sql,
    read_table,
)
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.sources import sql as sql_source
from tests.postgres import ESCAPED, PASSWORD, USER, Server, serving_postgres


@dataclass(frozen=True)
class Database:
    uri: str
    run: Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_postgres() as made:
        made.run("CREATE TABLE kept (id int, name text)", "INSERT INTO kept VALUES (1, 'secret')")
        yield made


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("duck") / "ward.duckdb"
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE kept (id int, name text)")
        made.execute("INSERT INTO kept VALUES (1, 'secret')")
    return path


@pytest.fixture(params=["duckdb", "postgresql"])
def uri(request: pytest.FixtureRequest) -> str:
    if request.param == "duckdb":
        return f"duckdb:{request.getfixturevalue('file')}"
    return request.getfixturevalue("server").uri()


def refuses(code: Code, uri: str, sql: str, **options) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        read_sql(uri, sql, **options)
    assert caught.value.code is code, caught.value
    said = str(caught.value)
    assert PASSWORD not in said
    assert ESCAPED not in said
    assert "secret" not in said
    assert "***" not in said
    return caught.value


# How SQL spells a value, and the value: what a CSV or a Parquet file would hold.
DAY, MOMENT = dt.date(2020, 2, 29), dt.datetime(2020, 2, 29, 12, 30, 1, 500_000)
TYPED = {
    "int": (["CAST(3 AS int)", "NULL", "-20"], [3, None, -20]),
    "bigint": (["CAST(3 AS bigint)", "NULL", "9000000000"], [3, None, 9_000_000_000]),
    "double": (["CAST(0.1 AS double precision)", "NULL", "89.99"], [0.1, None, 89.99]),
    "real": (
        ["CAST(0.1 AS real)", "CAST('NaN' AS real)", "CAST(7 AS real)"],
        [np.float32(0.1), None, 7],
    ),
    "numeric": (
        [f"CAST({v} AS numeric(9, 3))" for v in ("0.1", "NULL", "89.999")],
        [Decimal("0.1"), None, Decimal("89.999")],
    ),
    "boolean": (["TRUE", "NULL", "FALSE"], [True, None, False]),
    "text": (["CAST('a' AS text)", "NULL", "'1'"], ["a", None, "1"]),
    "date": ([f"DATE '{DAY}'", "NULL", "DATE '1970-01-02'"], [DAY, None, dt.date(1970, 1, 2)]),
    "timestamp": (
        [f"TIMESTAMP '{MOMENT}'", "NULL", "TIMESTAMP '1970-01-01 00:01:00'"],
        [MOMENT, None, dt.datetime(1970, 1, 1, 0, 1)],
    ),
    "timestamptz": (
        ["TIMESTAMPTZ '1970-01-01 02:00:30+02'", "NULL"],
        [dt.datetime(1970, 1, 1, 0, 0, 30, tzinfo=dt.UTC), None],
    ),
    "time": (["TIME '00:01:30'", "NULL"], [dt.time(0, 1, 30), None]),
    "interval": (["INTERVAL '1' MONTH", "NULL"], [object(), None]),
    "bytes": (["CAST('a' AS {bytes})", "NULL"], [b"a", None]),
    "nothing": (["NULL", "NULL"], [None, None]),
}
ATTRIBUTES = (
    Attribute(name="v", kind="numeric", bounds=(-9, 90), bins=50, missing="own bin"),
    Attribute(
        name="v", kind="categorical", categories=("a", "1"), outside="clip", missing="own bin"
    ),
    Attribute(name="v", kind="categorical", categories=(3, 0.1), outside="clip", missing="own bin"),
    Attribute(name="v", kind="categorical", categories=(False, True), missing="own bin"),
)


def outcome(frame, attribute: Attribute):
    """Bins, or the number of what refuses them."""
    try:
        return encode(frame, Domain(attributes=(attribute,))).bins[:, 0].tolist()
    except HedgerowError as error:
        return error.code.number


@pytest.mark.parametrize("kind", TYPED)
def test_a_value_of_a_database_is_read_as_the_same_value_elsewhere(uri: str, kind: str) -> None:
    spelled, values = TYPED[kind]
    of_bytes = "bytea" if uri.startswith("postgresql") else "blob"
    rows = " UNION ALL ".join(
        f"SELECT {i} AS i, {text.format(bytes=of_bytes)} AS v" for i, text in enumerate(spelled)
    )
    found = read_sql(uri, f"SELECT v FROM ({rows}) AS rows_ ORDER BY i")
    for attribute in ATTRIBUTES:
        assert outcome(found, attribute) == outcome({"v": values}, attribute), attribute
    # No row changes how another is read.
    for i in range(len(values)):
        alone = read_sql(uri, f"SELECT v FROM ({rows}) AS rows_ WHERE i = {i}")
        assert alone.schema.equals(found.schema)
        for attribute in ATTRIBUTES:
            assert outcome(alone, attribute) == outcome({"v": values[i : i + 1]}, attribute)


def test_types_that_have_a_file_are_read_as_from_the_file(uri: str, tmp_path: Path) -> None:
    domain = Domain(
        attributes=(
            Attribute(name="n", kind="numeric", bounds=(0, 100), missing="own bin"),
            Attribute(name="d", kind="numeric", bounds=(0, 2e9), missing="own bin"),
            Attribute(name="b", kind="categorical", categories=(False, True), missing="own bin"),
            Attribute(name="t", kind="categorical", categories=("x", "y"), missing="own bin"),
        )
    )
    (tmp_path / "t.csv").write_text(
        "n,d,b,t\n12.5,2020-02-29 12:30:01,true,x\n,,,\n99,1999-01-01,0,y\n"
    )
    table = pa.table(
        {
            "n": pa.array([Decimal("12.5"), None, Decimal("99")], pa.decimal128(9, 2)),
            "d": pa.array([dt.datetime(2020, 2, 29, 12, 30, 1), None, dt.datetime(1999, 1, 1)]),
            "b": [True, None, False],
            "t": ["x", None, "y"],
        }
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    sql = """
        SELECT CAST(n AS numeric(9, 2)) AS n, CAST(d AS timestamp) AS d, b, t FROM (VALUES
        (0, 12.5, '2020-02-29 12:30:01', TRUE, 'x'), (1, NULL, NULL, NULL, NULL),
        (2, 99, '1999-01-01', FALSE, 'y')) AS rows_ (i, n, d, b, t) ORDER BY i;  -- so
    """
    bins = encode(read_table(SqlQuery(uri, sql), domain=domain), domain).bins.tolist()
    for name in ("t.csv", "t.parquet"):
        assert encode(read_table(tmp_path / name, domain=domain), domain).bins.tolist() == bins


def test_what_postgresql_has_and_others_have_not(server: Server) -> None:
    numbers = "('NaN'::numeric), ('Infinity'), ('-Infinity'), (10::numeric ^ 400), (1e-400)"
    found = read_sql(server.uri(), f"SELECT n FROM (VALUES {numbers}) AS rows_ (n)")
    assert found.column("n").to_pylist() == [None, math.inf, -math.inf, math.inf, 0.0]
    # Its driver turns the end of all time into the beginning.
    day = Attribute(name="d", kind="numeric", bounds=(0, 100), edges=(50,))
    for kind in ("date", "timestamp", "timestamptz"):
        ends = f"SELECT d FROM (VALUES ('infinity'::{kind}), ('-infinity')) AS rows_ (d)"
        assert outcome(read_sql(server.uri(), ends), day) == [1, 0]
    server.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    assert read_sql(server.uri(), "SELECT 'ok'::mood AS m").column("m").to_pylist() == ["ok"]
    error = refuses(Code.BAD_QUERY, server.uri(), "SELECT 12::money AS price")
    assert "price::numeric" in error.fix


def test_a_database_in_another_encoding(server: Server) -> None:
    server.run(
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    )
    server.run("CREATE TABLE t AS SELECT chr(233) AS e", database="latin")
    assert read_sql(server.uri("latin"), "SELECT e FROM t").column("e").to_pylist() == ["é"]


def test_text_that_is_no_text_takes_no_other_row_along(server: Server) -> None:
    server.run("CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    server.run("CREATE TABLE t AS SELECT convert_from('\\xff', 'SQL_ASCII') AS v", database="bytes")
    query = SqlQuery(server.uri("bytes"), "SELECT v FROM t UNION ALL SELECT 'a' ORDER BY 1")
    with pytest.raises(HedgerowError, match=r"H904|H115"):
        read_table(query)
    read = read_table(query, absorbed=AbsorbedRows())
    domain = Domain(attributes=ATTRIBUTES[1:2])
    assert encode(read, domain, absorbed=AbsorbedRows()).bins[:, 0].tolist() == [0, 2]


@pytest.mark.parametrize("rows", [1, 70_000, 200_000])
def test_rows_come_in_pieces(uri: str, rows: int) -> None:
    series = "range(150000)" if uri.startswith("duckdb") else "generate_series(0, 149999)"
    query = SqlQuery(uri, f"SELECT i FROM {series} AS s (i) ORDER BY i")
    pieces = read_batches(query, rows=rows)
    assert next(pieces).column("i").to_pylist()[:3] == list(range(min(rows, 3)))
    if rows == 1:
        pieces.close()
        return
    sizes = [piece.num_rows for piece in pieces]
    assert sum(sizes) == max(0, 150_000 - rows)


def test_no_rows(uri: str) -> None:
    query = SqlQuery(uri, "SELECT id, name FROM kept WHERE id > 7")
    assert read_sql(query.uri, query.sql).num_rows == 0
    with pytest.raises(HedgerowError, match="H105"):
        read_table(query)
    empty = read_table(query, absorbed=AbsorbedRows())
    assert (empty.num_rows, empty.column_names) == (0, ["id", "name"])


NO_SELECT = [
    "",
    ";",
    "SELEC 1",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE kept",
    "DROP TABLE kept",
    "INSERT INTO kept VALUES (2, 'b')",
    "INSERT INTO kept VALUES (2, 'b') RETURNING id",
    "DELETE FROM kept",
    "WITH gone AS (DELETE FROM kept RETURNING id) SELECT * FROM gone",
    "BEGIN",
    "EXPLAIN SELECT 1",
    "COPY kept TO 'kept.csv'",
    "SELECT nothing FROM kept",
    "SELECT * FROM nowhere",
    "SELECT 1) TO STDOUT; DROP TABLE kept; --",
]


@pytest.mark.parametrize("sql", NO_SELECT)
def test_all_but_one_select_is_refused_and_changes_nothing(
    uri: str, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refuses(Code.BAD_QUERY, uri, sql)
    assert read_sql(uri, "SELECT id FROM kept").num_rows == 1
    assert list(tmp_path.iterdir()) == []


def test_messages_say_what_the_database_says_of_a_query(uri: str) -> None:
    assert "nowhere" in refuses(Code.BAD_QUERY, uri, "SELECT * FROM nowhere").found
    assert "LINE" not in refuses(Code.BAD_QUERY, uri, "SELECT nothing FROM kept").found


def test_a_duckdb_file_is_all_that_its_query_reaches(file: Path, tmp_path: Path) -> None:
    rows = pa.table({"a": [1]})
    assert rows.num_rows == 1
    (tmp_path / "other.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path / 'other.csv'}')",
        f"SELECT * FROM '{tmp_path / 'other.csv'}'",
        "SELECT * FROM rows",
        "SELECT * FROM (PIVOT kept ON name USING sum(id))",
    )[:3]:
        refuses(Code.BAD_QUERY, str(file), sql)
    # Its columns would be values of rows.
    refuses(Code.BAD_QUERY, str(file), "PIVOT kept ON name USING sum(id)")


def test_what_is_said_of_rows_is_not_repeated(uri: str, capfd: pytest.CaptureFixture[str]) -> None:
    error = refuses(Code.QUERY_STOPPED, uri, "SELECT CAST(name AS int) FROM kept")
    assert "TRY_CAST" in error.fix
    if uri.startswith("postgresql"):
        server_says = "CREATE OR REPLACE FUNCTION tell(t text) RETURNS text LANGUAGE plpgsql AS "
        body = "$$ BEGIN RAISE WARNING 'of %', t; RETURN t; END $$"
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(uri, autocommit=True) as made, made.cursor() as cursor:
            cursor.execute(server_says + body)
        assert read_sql(uri, "SELECT tell(name) AS n FROM kept").column("n").to_pylist() == [
            "secret"
        ]
    assert "secret" not in "".join(capfd.readouterr())


def test_a_query_has_a_time(uri: str) -> None:
    slow = "SELECT count(*) FROM {0} AS a (i), {0} AS b (i)".format(
        "range(10000000)" if uri.startswith("duckdb") else "generate_series(1, 10000000)"
    )
    begun = time.monotonic()
    error = refuses(Code.QUERY_STOPPED, uri, slow, timeout=0.3)
    assert time.monotonic() - begun < 5
    assert "0.3 seconds" in error.expected
    for none in (0, -1, float("nan"), float("inf"), 1e300, 2.0**31):
        refuses(Code.BAD_PARAMETER, uri, "SELECT 1", timeout=none)
    assert read_sql(uri, "SELECT 1 AS a", timeout=30).num_rows == 1


def test_a_server_that_falls_silent(server: Server) -> None:
    pids = []

    def rows() -> Iterator[Any]:
        wide = "SELECT pg_backend_pid() AS pid, repeat('x', 500) FROM generate_series(1, 1000000)"
        for batch in SqlQuery(server.uri(), wide, timeout=1.0).batches():
            if not pids:
                pids.append(batch["pid"][0].as_py())
                # It can neither answer nor be stopped.
                os.kill(pids[0], signal.SIGSTOP)
            yield batch

    begun = time.monotonic()
    try:
        with pytest.raises(HedgerowError) as caught:
            list(rows())
    finally:
        os.kill(pids[0], signal.SIGTERM)
        os.kill(pids[0], signal.SIGCONT)
    assert caught.value.code is Code.QUERY_STOPPED
    assert "1 seconds" in caught.value.expected
    assert time.monotonic() - begun < 8


def test_whoever_looks_no_further_leaves_no_connection(server: Server) -> None:
    wide = "SELECT 'left early', repeat('x', 500) FROM generate_series(1, 1000000)"
    pieces = SqlQuery(server.uri(), wide, timeout=60).batches()
    next(pieces)
    pieces.close()
    ask = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%left early%' AND pid <> "
    assert read_sql(server.uri(), ask + "pg_backend_pid()")[0][0].as_py() == 0


def test_a_connection_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # libpq waits for two seconds at the least.
    monkeypatch.setattr(sql_source, "_CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        where = f"postgresql://ward@127.0.0.1:{silent.getsockname()[1]}/ward"
        refuses(Code.NO_DATABASE, where, "SELECT 1")
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    ("uri", "more"),
    [
        ("postgresql://db/ward", "?connect_timeout=10"),
        ("postgresql://db/ward?", "connect_timeout=10"),
        ("postgresql://db/ward?sslmode=require", "&connect_timeout=10"),
        ("postgresql://db/ward?connect_timeout=90", ""),
        ("postgresql://?service=ward", ""),
    ],
)
def test_who_sets_a_time_to_connect_has_it(
    uri: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SqlQuery(uri, "SELECT 1")._with_connect_timeout() == uri + more
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "90")
    assert SqlQuery(uri, "SELECT 1")._with_connect_timeout() == uri


def test_a_connection_that_is_cut(server: Server) -> None:
    wide = "SELECT i, repeat('x', 500) AS x FROM generate_series(1, 1000000) AS s (i)"
    pieces = read_batches(SqlQuery(server.uri(), wide), rows=10)
    next(pieces)
    server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%repeat%' "
        "AND pid <> pg_backend_pid()"
    )
    with pytest.raises(HedgerowError) as caught:
        list(pieces)
    assert caught.value.code is Code.QUERY_STOPPED
    assert "closed the connection" in caught.value.found


def test_databases_that_are_not_there(server: Server, tmp_path: Path) -> None:
    (tmp_path / "junk.duckdb").write_bytes(b"no database" * 100)
    for wrong in (
        server.uri("nowhere"),
        server.uri(password="wrong-secret"),
        f"postgresql://{USER}:{ESCAPED}@127.0.0.1:1/postgres",
        f"postgresql://127.0.0.1:1/postgres?password={ESCAPED}",
        "postgresql://?service=nobody-has-this",
        str(tmp_path),
        str(tmp_path / "none.duckdb"),
        str(tmp_path / "junk.duckdb"),
        "mysql://localhost/ward",
    ):
        refuses(Code.NO_DATABASE, wrong, "SELECT 1")


MISTAKEN = [
    f"host=db user=alice password={PASSWORD}",
    f"host=db sslcert=/{'x/' * 200} password={PASSWORD} options={'x' * 300}",
    f" postgresql://alice:{ESCAPED}@db/ward",
    f"'postgresql://alice:{ESCAPED}@db/ward'",
    f"postgresql//alice:{ESCAPED}@db/ward",
    f"alice:{ESCAPED}@db/ward",
    f"{ESCAPED}:alice@db/ward",
    f"duckdb:postgresql://alice:{ESCAPED}@db/ward",
    f"db:5432:ward:alice:{PASSWORD}",
    f"postgresql+psycopg://alice:{ESCAPED}@db/ward",
]


@pytest.mark.parametrize("text", MISTAKEN)
def test_an_address_that_is_taken_for_a_path_is_not_repeated(text: str, tmp_path: Path) -> None:
    error = refuses(Code.NO_DATABASE, text, "SELECT 1")
    assert "alice" not in str(error)
    numbers = Domain(attributes=ATTRIBUTES[:1], target=Target(name="y", bounds=(0, 1)))
    for read in (
        lambda: read_table(text),
        lambda: read_table(f"{text}.csv"),
        lambda: Batches(f"{text}.parquet", numbers),
    ):
        with pytest.raises(HedgerowError, match="not repeated") as caught:
            read()
        assert caught.value.code is Code.UNREADABLE_FILE
        assert PASSWORD not in str(caught.value)
        assert ESCAPED not in str(caught.value)
    # A file of such a name is no address.
    path = tmp_path / "of=2020 a@b:c.csv"
    path.write_text("a\n")
    with pytest.raises(HedgerowError, match=r"no rows in .*of=2020 a@b:c\.csv"):
        read_table(path)
    with pytest.raises(HedgerowError, match=r"C:.*people\.duckdb: not there"):
        read_sql("C:\\wards\\people.duckdb", "SELECT 1")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ward:sec@ret@localhost/ward",
        "postgresql://ward:sec/ret@localhost/ward",
        "postgresql://ward:12/34@localhost/ward",
        "postgresql://ward:12?34@localhost/ward",
        "postgresql://ward:12#34@localhost/ward",
        "postgresql://ward:sec%zzret@localhost/ward",
        "postgresql://ward:sec:ret@localhost/ward",
        "postgresql:ward",
    ],
)
def test_a_password_that_is_not_escaped_is_nowhere_repeated(uri: str) -> None:
    error = refuses(Code.NO_DATABASE, uri, "SELECT 1")
    for part in ("sec", "ret@", "12", "34"):
        assert part not in error.found
    assert "%40" in error.fix
    assert uri not in repr(SqlQuery(uri, "SELECT 1"))


def test_a_query_is_named_without_password_and_user(server: Server) -> None:
    query = SqlQuery(server.uri() + "?sslmode=disable&application_name=x&service=", "SELECT 1")
    assert str(query) == f"postgresql://127.0.0.1:{server.port}/postgres?service="
    assert PASSWORD not in repr(query)
    assert ESCAPED not in repr(query)
    with pytest.raises(HedgerowError, match=r"H501.*PGPASSFILE"):
        query.to_keep()


def test_passwords_come_from_where_libpq_finds_them(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    open_uri = server.uri(password=None)
    monkeypatch.setenv("HOME", str(tmp_path))
    refuses(Code.NO_DATABASE, open_uri, "SELECT 1")
    secret = PASSWORD.replace(":", "\\:")
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:{server.port}:*:{USER}:{secret}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert read_sql(open_uri, "SELECT 1 AS a").num_rows == 1
    services = tmp_path / "services"
    services.write_text(
        f"[ward]\nhost=127.0.0.1\nport={server.port}\nuser={USER}\ndbname=postgres\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    service = SqlQuery("postgresql://?service=ward", "SELECT 1 AS a")
    assert read_table(service).num_rows == 1
    assert service.to_keep() == service
    assert "service=ward" in str(service)


SECRETS = [
    *(f"{name}=hush" for name in ("password", "sslpassword", "oauth_client_secret", "Password")),
    *(
        "scram_client_key=hush",
        "scram_server_key=hush",
        "options=-c%20a.key%3Dhush",
        "hush",
        "=hush",
    ),
    *("sslmode=require&pass%77ord=hush", "sslmode=require&oauth_client_secret="),
]


@pytest.mark.parametrize("secret", SECRETS)
def test_what_may_be_a_secret_is_not_kept(secret: str) -> None:
    query = SqlQuery(f"postgresql://reader@db/ward?{secret}", "SELECT 1")
    with pytest.raises(HedgerowError, match=r"H501.*PGSERVICEFILE") as caught:
        query.to_keep()
    assert "hush" not in str(caught.value)
    # A database's own messages may quote the value.
    if secret.endswith("=hush"):
        assert "hush" not in str(query.refused("no client hush in hush"))
    plain = replace(query, uri="postgresql://reader@db/ward?sslmode=verify-full&sslkey=/k.pem")
    assert plain.to_keep() == plain


@pytest.mark.parametrize("package", ["duckdb", "adbc_driver_postgresql"])
def test_without_the_extra(file: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    where = str(file) if package == "duckdb" else "postgresql://127.0.0.1:1/ward"
    assert "'.[sql]'" in refuses(Code.MISSING_EXTRA, where, "SELECT 1").fix


def test_estimators_take_rows_of_a_database(uri: str) -> None:
    series = "range(400)" if uri.startswith("duckdb") else "generate_series(0, 399)"
    # In no order that the query promises, and as decimals.
    sql = (
        f"SELECT CAST(i % 100 AS numeric(5, 2)) AS age, i % 100 > 60 AS ill FROM {series} AS s (i)"
    )
    domain = Domain(
        attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
        target=Target(name="ill", classes=(False, True)),
        capacity=500,
    )
    rows = hedgerow.read_sql(uri, sql)
    tree = hedgerow.DPTreeClassifier(epsilon=50.0, domain=domain).fit(rows, rows.column("ill"))
    assert (tree.predict(rows) == np.asarray(rows.column("ill"))).mean() > 0.95
    batches = Batches(lambda: read_batches(SqlQuery(uri, sql), rows=150), domain)
    forest = hedgerow.MedianForestClassifier(50.0, domain).fit(batches)
    assert batches.n_records == 400
    assert (forest.predict(rows) == np.asarray(rows.column("ill"))).mean() > 0.8
