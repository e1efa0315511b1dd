"""The trail of a party: what it has done that counts, chained by hashes and signed with its key.

An entry is a body (canonical JSON with its number, time, kind and what it tells), the BLAKE2b hash
of the hash before and of the body, and a signature of that hash with the key behind the party's
certificate. An entry of kind ``key`` has the certificate of those that follow, and is the first of
them. The last signature stands for all entries before it: whoever changes, moves or drops one has
to forge it. Entries cut off at the end are for others to miss who remember how long the trail was.

A party without a key, such as an owner in a Flower app, has a trail without signatures.
`database` keeps the entries; here is what they are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import plain
from hedgerow.net.certificates import Identity, fingerprint, fingerprints, is_signed, sign

START = bytes(32)
"""What stands for the hash before the first entry."""
CHARGE, KEY = "charge", "key"
_PERSON = b"hedgerow/trail/1"
_SIGNED = b"hedgerow/trail entry/v1\x00"
_OWN = ("n", "time", "kind")
_LINE = 80


@dataclass(frozen=True)
class TrailEntry:
    """One entry; its `signature` is empty at a party without a key."""

    n: int
    kind: str
    body: str
    hash: bytes
    signature: bytes = b""

    @property
    def time(self) -> float:
        """When it was written, in seconds since 1970, by the clock of this party."""
        return float(self._read()["time"])

    def fields(self) -> dict[str, Any]:
        """Return what it tells."""
        return {key: value for key, value in self._read().items() if key not in _OWN}

    def summary(self) -> str:
        """Say what it tells, but for what is too long for a line."""
        fields = self.fields().items()
        return ", ".join(f"{key} {value}" for key, value in fields if len(str(value)) <= _LINE)

    def follows(self, before: bytes) -> bool:
        """Whether its hash is that of the hash before and of its body."""
        return hmac.compare_digest(self.hash, _hash(before, self.body))

    def is_signed(self, certificate: str) -> bool:
        """Whether the holder of a certificate has signed it."""
        return is_signed(certificate, _SIGNED + self.hash, self.signature)

    def _read(self) -> dict[str, Any]:
        return jsonfile.loads(self.body, Code.TRAIL_BROKEN)


def next_entry(
    last: TrailEntry | None,
    kind: str,
    fields: Mapping[str, Any],
    signer: Identity | None = None,
    now: float | None = None,
) -> TrailEntry:
    """Make the entry after `last`; `fields` are JSON without NaN and infinity."""
    n = 1 if last is None else last.n + 1
    own = dict(zip(_OWN, (n, time.time() if now is None else now, kind), strict=True))
    if set(own) & set(fields):
        raise ValueError(f"an entry whose own words are {', '.join(_OWN)}")
    body = json.dumps({**own, **fields}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    hash_ = _hash(START if last is None else last.hash, body)
    signature = b"" if signer is None else sign(signer, _SIGNED + hash_)
    return TrailEntry(n, kind, body, hash_, signature)


def verify(
    entries: Iterable[TrailEntry],
    charges: Iterable[Mapping[str, Any]],
    certificate: str | None = None,
) -> TrailEntry | None:
    """Check a whole trail, and the charges of the accounts against it; return its last entry.

    With the `certificate` of the party all entries must be signed, the last one with its key or
    with one that it has renewed: earlier ones may be of an earlier key of the party, for which the
    last one stands. H933.
    """
    last, holder = None, ""
    told: dict[int, dict[str, Any]] = {}
    for entry in entries:
        _check(entry, last)
        if entry.kind == KEY:
            holder = str(entry.fields().get("certificate"))
        if holder and not entry.is_signed(holder):
            raise _broken(entry.n, "a signature that does not fit")
        if certificate is not None and not holder:
            raise _broken(entry.n, "no signature")
        if entry.kind == CHARGE:
            told[entry.n] = entry.fields()
        last = entry
    known = certificate is None or (holder and fingerprint(holder) in fingerprints(certificate))
    if last is not None and not known:
        raise _broken(last.n, "the signature of another key than that of this party's certificate")
    for charge in charges:
        made = told.pop(charge["entry"], None)
        if made != plain_charge({k: value for k, value in charge.items() if k != "entry"}):
            raise _broken(charge["entry"], f"another charge than {charge['key']} of the account")
    for n in told:
        raise _broken(n, "a charge that is not in the account")
    return last


def plain_charge(charge: Mapping[str, Any]) -> dict[str, Any]:
    """Return a charge as JSON has it, which knows no infinity; `time` is that of the charge."""
    rest = {key: value for key, value in charge.items() if key not in ("epsilon", "time")}
    return {**rest, "epsilon": plain(charge["epsilon"]), "charged": charge["time"]}


def _check(entry: TrailEntry, last: TrailEntry | None) -> None:
    n, before = (1, START) if last is None else (last.n + 1, last.hash)
    if entry.n != n:
        raise _broken(n, f"entry {entry.n} in its place")
    if not entry.follows(before):
        raise _broken(n, "a hash that does not fit")
    found = jsonfile.loads(entry.body, Code.TRAIL_BROKEN)
    if (found.get("n"), found.get("kind")) != (entry.n, entry.kind):
        raise _broken(n, "the body of another entry")


def _hash(before: bytes, body: str) -> bytes:
    return hashlib.blake2b(before + body.encode(), digest_size=32, person=_PERSON).digest()


def _broken(n: int, found: str) -> HedgerowError:
    return Code.TRAIL_BROKEN.error(found=f"entry {n}: {found}")
