"""Tables from a database: one SELECT, which may change nothing, as Arrow.

A DuckDB file is read by DuckDB's own library, PostgreSQL through ADBC. The types are those that the
query declares for its columns; no type is inferred from the rows. What a database says about a
value stays with it: only what it says about the query itself is repeated, never with a password.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from typing import Any
from urllib.parse import parse_qsl, unquote

import pyarrow as pa
import pyarrow.compute as pc

from hedgerow.errors import Code, HedgerowError, install_of
from hedgerow.tables.sources.cells import spelled_numbers
from hedgerow.tables.sources.places import lacks_file, place_name

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^:@/?#,\s\[\]]*)(?::\d*)?"
# Stricter than libpq, which would take parts of an unescaped password for a host or a port, and
# name them in its messages.
_POSTGRES = re.compile(
    r"postgres(?:ql)?://(?:[^:@/?#\s]*(?::(?P<password>[^:@/?#\s]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/(?P<database>[^/@?#\s]*))?"
    r"(?:\?(?P<parameters>[^@#\s]*))?",
    re.IGNORECASE,
)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SHOWN = ("host", "port", "dbname", "service")
# Of libpq's parameters those whose values are no secrets. `options` may be anything.
_KEPT = {
    *_SHOWN,
    *("hostaddr", "user", "passfile", "servicefile", "require_auth", "channel_binding"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir"),
    *("sslcertmode", "sslsni", "ssl_min_protocol_version", "ssl_max_protocol_version"),
    *("gssencmode", "gsslib", "gssdelegation", "krbsrvname", "requirepeer"),
    *("application_name", "client_encoding", "connect_timeout", "tcp_user_timeout"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    *("target_session_attrs", "load_balance_hosts"),
}
_LOCKED: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
_END = re.compile(r";\s*(--[^\n]*\s*)*$")
# A server without an encoding would look through the bytes, and stop at a row that is no UTF-8.
_UTF8 = (
    "SELECT set_config('client_encoding', CASE current_setting('server_encoding') "
    "WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, true)"
)
# Infinite dates and timestamps of PostgreSQL, as its driver moves them to 1970: beyond the largest.
_WRAPPED = {
    pa.int32(): (2**31 - 1 + 10_957) - 2**32,
    pa.int64(): (2**63 - 1 + 946_684_800_000_000) - 2**64,
}
LONGEST_TIMEOUT = 2_147_483.0
"""Seconds; PostgreSQL counts milliseconds in 31 bits."""
_CONNECT_SECONDS = 10
_GRACE_SECONDS = 2.0
"""Within which a database that is still there says itself that the time is over."""
_HOW_TO_LOG_IN = (
    "write it without a password, and keep that in the file that PGPASSFILE names, or in a service "
    "of PGSERVICEFILE"
)


@dataclass(frozen=True)
class SqlQuery:
    """One SELECT on a database, which `read_table` and `read_batches` take in place of a file.

    `uri`: ``postgresql://user@host:port/database``, as libpq reads it, with its environment,
    password file and services; or a DuckDB file, with or without ``duckdb:`` before it. `timeout`:
    seconds for the query with all its rows. A connection has 10 seconds, unless the URI, a service
    or ``PGCONNECT_TIMEOUT`` says otherwise. As a text it is named without user and password.
    """

    uri: str = field(repr=False)
    sql: str
    timeout: float | None = None

    def __str__(self) -> str:
        if not self._is_postgres:
            return place_name(self._file)
        found = self._parts()
        shown = [(name, value) for name, value in self._parameters() if name in _SHOWN]
        more = "?" + "&".join(f"{name}={value}" for name, value in shown) if shown else ""
        return f"postgresql://{found['hosts']}/{found['database'] or ''}{more}"

    @property
    def _is_postgres(self) -> bool:
        return self.uri.lower().startswith(("postgresql:", "postgres:"))

    @property
    def _file(self) -> Path:
        scheme = _SCHEME.match(self.uri)
        if scheme is None:
            return Path(self.uri)
        if scheme[0].lower() != "duckdb:":
            # Without slashes it may as well be a user, with a password behind the colon.
            known = self.uri.startswith("//", scheme.end())
            begins = f"that begins with {scheme[0]!r}" if known else "of another kind"
            raise Code.NO_DATABASE.error(found=f"a URI {begins}")
        return Path(self.uri[len("duckdb:") :].removeprefix("//"))

    def _parts(self) -> re.Match[str]:
        found = _POSTGRES.fullmatch(self.uri)
        if found is None or _BAD_PERCENT.search(self.uri):
            raise Code.NO_DATABASE.error(
                expected="postgresql://user@host:port/database?parameters",
                found="a URI of another form, which is not repeated: a password may be in it",
                fix="write characters such as @ : / ? # % in a name or password as %40 %3A %2F "
                f"%3F %23 %25; or {_HOW_TO_LOG_IN}",
            )
        return found

    def _parameters(self) -> list[tuple[str, str]]:
        return parse_qsl(self._parts()["parameters"] or "", keep_blank_values=True)

    def _secrets(self) -> list[str]:
        raw = self._parts()["password"] or ""
        more = [value for name, value in self._parameters() if name not in _KEPT]
        return [text for text in (raw, unquote(raw), *more) if text]

    def to_keep(self) -> SqlQuery:
        """Return it as it may be written down, a file by its whole path.

        H501 with a password, or with a parameter that is not known to be no secret.
        """
        if not self._is_postgres:
            return replace(self, uri=f"duckdb:{self._file.resolve()}")
        if self._parts()["password"]:
            raise Code.BAD_PARAMETER.error(
                expected="a database without a password in its URI, since the URI is kept",
                found=f"{self} with one",
                fix=_HOW_TO_LOG_IN,
            )
        if not _KEPT.issuperset(name for name, _ in self._parameters()):
            raise Code.BAD_PARAMETER.error(
                expected=f"no parameters but {', '.join(sorted(_KEPT))} in a URI that is kept: "
                "others may be secrets",
                found=f"{self} with another one",
                fix="leave it out, or put it in a service of PGSERVICEFILE; " + _HOW_TO_LOG_IN,
            )
        return self

    def batches(self) -> Iterator[pa.Table]:
        """Run the query and give its rows, as they come; one table without rows at the least.

        H120 if the database cannot be opened, H121 for what is not one SELECT that it understands,
        H122 if it does not come to its end, H406 without the extra, H501 for a bad timeout.
        """
        if self.timeout is not None and not 0 < self.timeout <= LONGEST_TIMEOUT:
            raise Code.BAD_PARAMETER.error(
                expected=f"a timeout of a query above 0 and of at most {LONGEST_TIMEOUT:.0f} "
                "seconds",
                found=f"{self.timeout:g}",
            )
        clock = _Clock(self.timeout)
        if self._is_postgres:
            return _in_time(self, clock, _postgres_batches(self, clock))
        return _duckdb_batches(self, clock)

    def _with_connect_timeout(self) -> str:
        """Return the URI of PostgreSQL, with a time to connect where nothing else sets one."""
        names = {name for name, _ in self._parameters()}
        elsewhere = {"PGCONNECT_TIMEOUT", "PGSERVICE"} & os.environ.keys()
        if elsewhere or names & {"connect_timeout", "service"}:
            return self.uri
        before = {None: "?", "": ""}.get(self._parts()["parameters"], "&")
        return f"{self.uri}{before}connect_timeout={_CONNECT_SECONDS}"

    def refused(self, said: Any) -> HedgerowError:
        """Build H121 from what a database says of a query before it looks at a row."""
        return Code.BAD_QUERY.error(found=f"{self}: {self._first_line(said)}")

    def unopened(self, said: Any) -> HedgerowError:
        """Build H120 from what is said of a database that cannot be opened."""
        return Code.NO_DATABASE.error(found=f"{self}: {self._first_line(said)}")

    def _first_line(self, said: Any) -> str:
        """Return what matters of a message: neither the query, nor a password, nor hints."""
        text = str(said).partition("\n")[0].strip()
        # What libraries and servers put before what they have to say.
        text = re.sub(r"^([A-Z_]+: )?(\[libpq\] )?(Failed to [^:]*: )?", "", text)
        text = re.sub(r"^could not begin COPY: |\b(ERROR|FATAL): +", "", text).rstrip("!.")
        for secret in self._secrets() if self._is_postgres else ():
            text = text.replace(secret, "***")
        return text


def read_sql(uri: str, sql: str, *, timeout: float | None = None) -> pa.Table:
    """Read the rows of one SELECT, from DuckDB or PostgreSQL; see `SqlQuery` and its `batches`."""
    return pa.concat_tables(SqlQuery(uri, sql, timeout).batches())


@dataclass
class _Clock:
    """Tells a query that was stopped for its time from others."""

    limit: float | None

    def __post_init__(self) -> None:
        self._begun = time.monotonic()

    def stopped(self, query: SqlQuery, found: str) -> HedgerowError:
        """Build H122."""
        if self.limit is not None and time.monotonic() - self._begun >= self.limit:
            return Code.QUERY_STOPPED.error(
                expected=f"all rows within {self.limit:g} seconds",
                found=f"{query}: the query took longer",
                fix="allow more time (--sql-timeout), or make the query quicker",
            )
        return Code.QUERY_STOPPED.error(found=f"{query}: {found}")


@contextmanager
def _extra(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise Code.MISSING_EXTRA.error(
            expected=package, found="it is not installed", fix=install_of("sql")
        ) from None


def _each(reader: pa.RecordBatchReader, clean: Callable[[pa.Table], pa.Table]) -> Iterator[Any]:
    for batch in reader:
        yield clean(pa.Table.from_batches([batch]))
    yield clean(reader.schema.empty_table())


def _in_time(query: SqlQuery, clock: _Clock, batches: Generator[pa.Table]) -> Iterator[pa.Table]:
    """Give what comes within the limit, if there is one, also of a server that falls silent.

    Nothing interrupts who waits for such a server: that is a thread, which is left behind.
    """
    if clock.limit is None:
        yield from batches
        return
    asked, given = SimpleQueue[bool](), SimpleQueue[pa.Table | Exception | None]()

    def answer() -> None:
        while asked.get():
            try:
                given.put(next(batches, None))
            except Exception as error:
                given.put(error)
        batches.close()

    left = clock.limit + _GRACE_SECONDS
    thread = Thread(target=answer, name="query", daemon=True)
    thread.start()
    try:
        while True:
            asked.put(True)
            begun = time.monotonic()
            found = given.get(timeout=max(0.0, left))
            # What somebody does with the rows takes none of it.
            left -= time.monotonic() - begun
            if found is None:
                return
            if isinstance(found, Exception):
                raise found
            yield found
    except Empty:
        left = 0.0
        raise clock.stopped(query, "the server says nothing") from None
    finally:
        asked.put(False)
        thread.join(max(0.0, min(left, _GRACE_SECONDS)))


def _duckdb_batches(query: SqlQuery, clock: _Clock) -> Iterator[pa.Table]:
    with _extra("duckdb"):
        import duckdb
    path = query._file
    if lacking := lacks_file(path):
        raise query.unopened(lacking)
    try:
        opened = duckdb.connect(path, read_only=True, config=_LOCKED)
    except duckdb.Error as error:
        raise query.unopened(error) from None
    with closing(opened) as database:
        timer = Timer(clock.limit or 0, database.interrupt)
        timer.daemon = True
        try:
            statements = database.extract_statements(query.sql)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise _not_one_select(query, len(statements))
            rows = database.sql(query.sql)
            if clock.limit is not None:
                timer.start()
            # Rows are read from here on: a message may have a value in it.
            try:
                with pa.RecordBatchReader.from_stream(rows) as reader:
                    yield from _each(reader, lambda table: table)
            except (duckdb.PermissionException, duckdb.ParserException) as error:
                raise query.refused(error) from None
            except (duckdb.Error, pa.ArrowException, OSError):
                raise clock.stopped(query, "DuckDB stopped at a row, or for want of room") from None
        except duckdb.Error as error:
            raise query.refused(error) from None
        finally:
            timer.cancel()


def _postgres_batches(query: SqlQuery, clock: _Clock) -> Generator[pa.Table]:
    with _extra("adbc-driver-postgresql"):
        from adbc_driver_postgresql import dbapi
    query._parts()
    try:
        opened = dbapi.connect(query._with_connect_timeout())
    except dbapi.Error as error:
        raise query.unopened(error) from None
    # The driver puts words behind it, which a semicolon would cut off, and a comment hide.
    sql = _END.sub("", query.sql) + "\n"
    with closing(opened) as database, closing(database.cursor()) as cursor:
        try:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # Notices would go to standard error; they may quote rows.
            cursor.execute("SET LOCAL client_min_messages TO error")
            cursor.execute(_UTF8)
            limit = 0 if clock.limit is None else max(1, round(1000 * clock.limit))
            cursor.execute(f"SET LOCAL statement_timeout TO {limit}")
            # To prepare it reads no row, so that whatever is said is about the query.
            try:
                names = cursor.adbc_execute_schema(sql).names if query.sql.strip() else []
            except (dbapi.Error, pa.ArrowException) as error:
                raise query.refused(error) from None
            if not names:
                raise _not_one_select(query, 1)
            cursor.execute(sql)
            with cursor.fetch_record_batch() as reader:
                _check_money(query, reader.schema)
                yield from _each(reader, _from_postgres)
        except dbapi.Error as error:
            # 22 and 23 are about values; the others that have a state, about the query.
            if error.sqlstate is None or error.sqlstate[:2] in ("22", "23", "57"):
                raise clock.stopped(query, _stop(error)) from None
            raise query.refused(error) from None
        except (pa.ArrowException, OSError) as error:
            raise clock.stopped(query, _stop(error)) from None


def _stop(error: Exception) -> str:
    state = getattr(error, "sqlstate", None)
    if "PQgetCopyData" in str(error):
        return "the server closed the connection"
    return f"PostgreSQL stopped at a row, or was stopped{f' (state {state})' if state else ''}"


def _not_one_select(query: SqlQuery, n_statements: int) -> HedgerowError:
    many = f"{n_statements} statements" if n_statements != 1 else "a statement of another kind"
    return Code.BAD_QUERY.error(found=f"{query}: {many}")


def _check_money(query: SqlQuery, schema: pa.Schema) -> None:
    """Refuse money, which comes in a unit that depends on the server's country."""
    for one in schema:
        if (one.metadata or {}).get(b"POSTGRESQL:type") == b"money":
            raise Code.BAD_QUERY.error(
                found=f"{query}: column {one.name!r} of type money",
                fix=f"cast it in the query: {one.name}::numeric",
            )


def _from_postgres(table: pa.Table) -> pa.Table:
    """Return numbers and instants as they are in other tables; each value by itself."""
    columns, fields = [], []
    for one, column in zip(table.schema, table.columns, strict=True):
        kind = one.type
        if getattr(kind, "type_name", None) == "numeric":
            # The driver gives its digits, as a file would.
            texts = pa.chunked_array([c.storage for c in column.chunks], pa.string())
            column = spelled_numbers(texts)
        elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
            of = pa.int32() if pa.types.is_date32(kind) else pa.int64()
            wrapped, most = pa.scalar(_WRAPPED[of], of), pa.scalar(2 ** (of.bit_width - 1) - 1, of)
            counts = column.cast(of)
            column = pc.if_else(pc.equal(counts, wrapped), most, counts).cast(kind)
        columns.append(column)
        fields.append(pa.field(one.name, column.type))
    return pa.table(columns, schema=pa.schema(fields))
