"""Where a verb reads its rows: a file, or a query on a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.errors import Code

if TYPE_CHECKING:
    from hedgerow.tables import SqlQuery

TABLE_HELP = (
    "CSV, Parquet or Arrow file; with --sql a DuckDB file, or postgresql://user@host/database"
)
_DATABASES = (".duckdb", ".ddb", ".db")

TableArgument = Annotated[str, typer.Argument(help=TABLE_HELP)]
SqlOption = Annotated[
    str | None, typer.Option("--sql", help="one SELECT on the database; or a file ending in .sql")
]
SqlTimeoutOption = Annotated[
    float | None, typer.Option("--sql-timeout", help="seconds for the query with all its rows")
]


def source_of(table: str, sql: str | None, timeout: float | None) -> Path | SqlQuery:
    """Return the file, or the query on a database; H501 where a flag is missing or too many."""
    from hedgerow.tables import SqlQuery
    from hedgerow.tables.reading import FORMATS

    is_uri = table.lower().startswith(("duckdb:", "postgresql:", "postgres:"))
    ending = "" if is_uri else Path(table).suffix.lower()
    if sql is None:
        if is_uri or ending in _DATABASES:
            raise Code.BAD_PARAMETER.error(
                expected="a query for a database",
                found="a database alone",
                fix='pass --sql "SELECT ...", or --sql and a file that ends in .sql',
            )
        if timeout is not None:
            raise Code.BAD_PARAMETER.error(
                expected="--sql-timeout with --sql", found="--sql-timeout alone"
            )
        return Path(table)
    if ending in FORMATS:
        raise Code.BAD_PARAMETER.error(
            expected="a database with --sql: a DuckDB file or postgresql://...",
            found=f"a file ending in {ending}",
            fix="leave out --sql, or load the file into a database first",
        )
    return SqlQuery(table, _text(sql), timeout)


def _text(sql: str) -> str:
    if not sql.lower().endswith(".sql"):
        return sql
    try:
        return Path(sql).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise Code.BAD_QUERY.error(
            expected="a file with one SELECT", found=f"{sql}: {reason}", fix="check the path"
        ) from None
