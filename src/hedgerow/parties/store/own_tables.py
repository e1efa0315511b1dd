"""Tables that stay with their party: which file holds its rows of a population."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder, replacing
from hedgerow.tables import SqlQuery, read_table
from hedgerow.tables.absorbing import AbsorbedRows

QUERY_SECONDS = 600.0
"""For a query that a run makes, with all its rows, unless it was kept with others."""
_KEY_BYTES = 32
OWNER_ONLY_FILE = "owner-only.json"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnTable:
    """A file, or a query, with rows of a population, read by this party when a run begins.

    `ids` is a column of ids and `domain` a file with the domain of this party's columns, where
    columns of the same records are at several parties. `columns` are those that the file had when
    it was named: a job that wants others is refused before anything is charged.
    """

    population: str
    path: Path | SqlQuery
    ids: str = ""
    domain: Path | None = None
    columns: tuple[str, ...] = ()

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse, H107, a job for which the file has no column."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise Code.MISSING_COLUMN.error(
                expected=f"the columns of the job in the table of {self.population}",
                found=f"no {', '.join(map(repr, missing[:5]))}",
                fix="name a table that has them: `hedgerow upload TABLE --here --population "
                f"{self.population}`",
            )


_ENTRY = TypeAdapter(OwnTable)


def keep_own_table(state: StateFolder, table: OwnTable) -> OwnTable:
    """Remember a table, with the columns that it has; one of the population before is forgotten.

    A path is kept whole, and a query gets a time limit: nobody is there when a run asks it. H501
    for a database with a password in its URI, which would be kept as well; errors are those of
    `read_table`, if it is none.
    """
    check_name(table.population, "population")
    place = table.path
    if isinstance(place, SqlQuery):
        seconds = QUERY_SECONDS if place.timeout is None else place.timeout
        place = replace(place.to_keep(), timeout=seconds)
    else:
        place = place.resolve()
    whole = replace(table, path=place, columns=tuple(read_table(place).column_names))
    entry = _ENTRY.dump_json(whole).decode()
    with open_store(state).transaction("name a table") as made:
        made.put("own_tables", {"population": table.population, "entry": entry})
        made.tell("table", {"population": table.population})
    return whole


def own_tables(state: StateFolder) -> list[OwnTable]:
    """Return the tables of this party."""
    with open_store(state).snapshot() as made:
        rows = made.rows("own_tables")
    with jsonfile.refusing(Code.JOURNAL_DAMAGED):
        return [_ENTRY.validate_json(row["entry"]) for row in rows]


def own_table(state: StateFolder, population: str) -> OwnTable:
    """Return the table of a population; H934 if there is none, or its file is gone."""
    for table in own_tables(state):
        if table.population == population:
            if isinstance(table.path, Path) and not table.path.exists():
                raise Code.NO_TABLE_HERE.error(found=f"one of {population} whose file is gone")
            return table
    raise Code.NO_TABLE_HERE.error(found=f"none of {population}")


@contextmanager
def kept_from_others(party: str) -> Iterator[None]:
    """Say of an error about a party's table its number alone; the rest is in the log of the run.

    What a run ends with, every member is shown.
    """
    try:
        yield
    except HedgerowError as error:
        event = {"party": party, "outcome": error.code.number, "found": error.found}
        _logger.warning("table", extra={"event": event})
        raise error.code.error(
            expected=f"rows of {party} that fit its domain, each with an id of its own where "
            "parties match rows by ids",
            found=f"others; the log of this run at {party} says which",
            fix=f"have {party} look into worker.log of this run, and mend its table",
        ) from None


def keep_absorbed(state: StateFolder, run: str, absorbed: AbsorbedRows) -> None:
    """Write what a run has done to rows that do not fit, for the eyes of their party only."""
    with replacing(state.path("runs", run, OWNER_ONLY_FILE)) as file:
        file.write(absorbed.to_json().encode())


def check_same(state: StateFolder, run: str, pieces: Sequence[bytes]) -> None:
    """Refuse another table than that of the first attempt, H119; what is kept is a keyed digest."""
    store, name = open_store(state), f"{run} table"
    with store.snapshot() as made:
        row = made.row("memories", run=name)
    kept = None if row is None else row["data"]
    if kept is None:
        key = secrets.token_bytes(_KEY_BYTES)
        kept = json.dumps({"key": key.hex(), "digest": _digest(key, pieces)}).encode()
        with store.transaction("pin a table") as made:
            made.put("memories", {"run": name, "data": kept})
    known = jsonfile.loads(kept, Code.JOURNAL_DAMAGED)
    if not hmac.compare_digest(_digest(bytes.fromhex(known["key"]), pieces), known["digest"]):
        raise Code.TABLE_CHANGED.error(
            expected="the table that this run began with", found="other records, or another order"
        )


def _digest(key: bytes, pieces: Sequence[bytes]) -> str:
    total = hmac.new(key, digestmod=hashlib.sha256)
    for piece in pieces:
        total.update(piece)
    return total.hexdigest()
