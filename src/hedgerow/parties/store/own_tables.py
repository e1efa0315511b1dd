"""Tables that stay with their party: which file holds its rows of a population."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.tables import read_table

_KEY_BYTES = 32


@dataclass(frozen=True)
class OwnTable:
    """A file with rows of a population, read by this party when a run begins.

    `ids` is a column of ids and `domain` a file with the domain of this party's columns, where
    columns of the same records are at several parties.
    """

    population: str
    path: Path
    ids: str = ""
    domain: Path | None = None


def keep_own_table(state: StateFolder, table: OwnTable) -> None:
    """Remember a table; another one of the population before is forgotten."""
    check_name(table.population, "population")
    entry = json.dumps({k: None if v is None else str(v) for k, v in asdict(table).items()})
    with open_store(state).transaction("name a table") as made:
        made.put_own_table(table.population, entry)
        made.tell("table", {"population": table.population})


def own_tables(state: StateFolder) -> list[OwnTable]:
    """Return the tables of this party."""
    with open_store(state).snapshot() as made:
        texts = made.own_tables().values()
    found = []
    for text in texts:
        entry = jsonfile.loads(text, Code.JOURNAL_DAMAGED)
        domain = entry["domain"] and Path(entry["domain"])
        found.append(
            OwnTable(entry["population"], Path(entry["path"]), entry["ids"], domain or None)
        )
    return found


def own_table(state: StateFolder, population: str) -> OwnTable:
    """Return the table of a population; H934 if there is none, or its file is gone."""
    for table in own_tables(state):
        if table.population == population:
            if not table.path.exists():
                raise Code.NO_TABLE_HERE.error(found=f"one of {population} whose file is gone")
            return table
    raise Code.NO_TABLE_HERE.error(found=f"none of {population}")


def check_readable(path: Path) -> list[str]:
    """Return the columns of a file, if it is a table at all; errors are those of `read_table`."""
    return list(read_table(path).column_names)


def check_same(state: StateFolder, run: str, pieces: Sequence[bytes]) -> None:
    """Refuse another table than that of the first attempt, H119; what is kept is a keyed digest."""
    store, name = open_store(state), f"{run} table"
    with store.snapshot() as made:
        kept = made.memory(name)
    if kept is None:
        key = secrets.token_bytes(_KEY_BYTES)
        kept = json.dumps({"key": key.hex(), "digest": _digest(key, pieces)}).encode()
        with store.transaction("pin a table") as made:
            made.put_memory(name, kept)
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
