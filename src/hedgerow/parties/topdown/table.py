"""The table of an owner in a DP-TopDown run: read, and the same after every restart."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.parties.store.durable import read_small, write_once
from hedgerow.tables import Domain, Encoded, encode, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.batches import no_rows

OWNER_ONLY_FILE = "owner-only.json"
"""What an owner's run has done to its rows, for the owner's eyes only."""

_KEY_BYTES = 32


def encoded_table(path: Path, domain: Domain, absorbed: AbsorbedRows | None = None) -> Encoded:
    """Read an owner's table under the domain of a job; one without rows gets a warning.

    That there are no rows is as private as the rows: nobody but the owner is told.

    Parameters
    ----------
    path : Path
    domain : Domain
        Of the job, which others have written.
    absorbed : AbsorbedRows, optional
        With it no row is refused, as for `hedgerow.tables.encode`, the first records up to the
        capacity are kept, and nothing is said: an owner that does not come to a run, or says why,
        has told about its rows.
    """
    assert domain.target is not None
    if absorbed is not None:
        table = read_table(path, domain=domain, absorbed=absorbed)
        encoded = encode(table, domain, domain.target.name, absorbed=absorbed)
        return encoded.within_capacity(domain.capacity, absorbed)
    try:
        return encode(read_table(path, domain=domain), domain, domain.target.name)
    except HedgerowError as error:
        if error.code is not Code.EMPTY_TABLE:
            raise
    warnings.warn(
        f"{path} has no rows: this owner answers with noise alone, and nobody is told",
        HedgerowWarning,
        stacklevel=2,
    )
    return no_rows(domain)


def check_same(folder: Path, encoded: Encoded) -> None:
    """Refuse another table than the one that the run began with, H119.

    What is kept of it is a keyed digest, so that a copy of it alone says nothing about rows.
    """
    path = folder / "table.json"
    if not path.exists():
        key = secrets.token_bytes(_KEY_BYTES)
        write_once(path, json.dumps({"key": key.hex(), "digest": _digest(key, encoded)}).encode())
    known: dict[str, Any] = json.loads(read_small(path, 1 << 12, Code.JOURNAL_DAMAGED))
    if not hmac.compare_digest(_digest(bytes.fromhex(known["key"]), encoded), known["digest"]):
        raise Code.TABLE_CHANGED.error(
            expected="the table that this run began with", found="other records, or another order"
        )


def forget_table(folder: Path) -> None:
    """Let a run that has charged and answered nothing begin with any table."""
    (folder / "table.json").unlink(missing_ok=True)


def _digest(key: bytes, encoded: Encoded) -> str:
    total = hmac.new(key, digestmod=hashlib.sha256)
    total.update(f"{encoded.bins.shape}".encode())
    total.update(np.ascontiguousarray(encoded.bins.T).data)
    assert encoded.target is not None
    total.update(np.ascontiguousarray(encoded.target).data)
    if not encoded.present.all():
        total.update(np.ascontiguousarray(encoded.present).data)
    return total.hexdigest()
