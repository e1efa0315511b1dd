"""`share_upload`: an owner's table leaves its machine as three parts, none of which says anything.

The table is encoded under its public domain, placed at random among a public number of slots, and
its bits are dealt to the three servers. What stays with the owner: the table, which slots hold
records, and a record of uploads with keyed hashes of the files, of which no server learns.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.options import check_option
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.consortium.policy import OwnerTerms
from hedgerow.parties.consortium.state_key import make_state_key, read_state_key
from hedgerow.parties.roles.owner_account import check_listed, send_terms, shared_populations
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import Claim, sync_folder
from hedgerow.parties.store.journal import Entry, locked_journal
from hedgerow.parties.store.manifests import (
    SALT_BYTES,
    UploadManifest,
    correction_digest,
    format_version,
    seed_digest,
    seeds_held,
)
from hedgerow.parties.wire.client import call_member
from hedgerow.parties.wire.requests import BLOCK_BYTES, Body, Fields
from hedgerow.protocols.sharing.integrate import tagged
from hedgerow.protocols.sharing.uploaded import planes_of
from hedgerow.secure.replicated.outside import Dealt, deal
from hedgerow.secure.secret import pack
from hedgerow.tables import Domain, Encoded, SqlQuery, TextFormat, encode, pad, read_table
from hedgerow.tables.ids import IdKind, check_kind, key_check
from hedgerow.tables.partition import ids_of
from hedgerow.tables.sources.places import place_name


def make_align_key(path: Path) -> None:
    """Draw a key for owners of columns, into a file of mode 0600 that does not exist yet.

    The owners hand it to each other, and to nobody else. One key does for all versions of their
    tables.
    """
    make_state_key(path)


def check_public(domain: Domain, slots: int | None, ids: str | None, align_key: Path | None) -> int:
    """Check what needs no data; return the slots."""
    if not domain.is_public:
        raise Code.DOMAIN_READ_FROM_DATA.error(found="a domain that was read from data")
    if (ids is None) != (align_key is None):
        raise Code.BAD_PARAMETER.error(
            expected="ids (--ids) and the key of the owners (--align-key) together, or neither",
            found=f"ids={ids!r}, align_key={align_key}",
        )
    n_slots = domain.capacity if slots is None else slots
    if n_slots is None:
        raise Code.MISSING_CAPACITY.error(
            found="neither a number of slots nor a capacity in the domain", fix="pass --slots"
        )
    if n_slots < 1:
        raise Code.BAD_PARAMETER.error(expected="at least one slot (--slots)", found=f"{n_slots}")
    return n_slots


def encode_part(
    path: Path | pa.Table,
    domain: Domain,
    target: str | None,
    ids: str | None,
    text: TextFormat | None = None,
) -> Encoded:
    """Read a file and encode it, or rows; with `ids`, as many columns of the domain as it has.

    Raises as `hedgerow.tables.encode`, with rows and values: for the owner's eyes alone.
    """
    table: Any = path
    if isinstance(path, Path):
        table = read_table(path, domain=domain, text=text or TextFormat())
    label = target or (domain.target.name if domain.target is not None else None)
    if ids is None:
        return encode(table, domain, label)
    names = [name for name in domain.names if name in table.column_names]
    has_target = target is not None or label in table.column_names
    if not names:
        raise Code.MISSING_COLUMN.error(
            expected="a column of the domain in the table",
            found=f"none in {path.name}" if isinstance(path, Path) else "none",
        )
    part = domain.select(names, target=has_target)
    return encode(table, part, label if has_target else None, ids=ids)


def place_records(encoded: Encoded, n_slots: int, key: bytes | None, kind: str = "text") -> Encoded:
    """Place the records in slots: at random, or in the order of their tags where a key makes some.

    H109 for ids of another kind than said.
    """
    if key is None:
        return pad(encoded, n_slots)
    check_kind(ids_of(encoded), kind)
    return tagged(encoded, n_slots, key)


_HASHED_ROWS = 1 << 16
_JOURNAL, HASH_KEY, _LOCK = "uploads.jsonl", "uploads.key", "uploads.lock"

Progress = Callable[[str, int, int], None]
"""Told a stage, what is done of it and how much it is in all."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Receipt:
    """What an upload was, and the bytes that were sent to all three servers together."""

    manifest: UploadManifest
    sent: int
    seconds: float
    terms: OwnerTerms


def share_upload(
    config: PartyConfig,
    table: str | Path | SqlQuery,
    domain: Domain,
    *,
    id: str,
    population: str,
    slots: int | None = None,
    target: str | None = None,
    ids: str | None = None,
    align_key: Path | None = None,
    id_type: str = "text",
    text: TextFormat | None = None,
    lifetime_epsilon: float | None = None,
    progress: Progress = no_progress,
) -> Receipt:
    """Share a table with the servers.

    1. Read and encode the table and place it in slots; if it is refused, no server hears of it.
    2. Ask every server whether it will take the upload; tell it what this owner's policy allows.
    3. Deal the bits and send every server its part, all at once.

    `table`: CSV, Parquet or Arrow; or a query.
    `domain`: public; with `ids` it may have columns that other owners hold.
    `id`: of the upload, never used before.
    `population`: whose records they are: what is computed from them is charged to its account, now
    and for every later version of the table.
    `slots`: public number of slots; the domain's capacity by default.
    `target`: column of the target, if it has another name than in the domain.
    `ids`: column of row ids, where several owners hold columns: what all of them have is joined.
    `align_key`: file with a key that these owners have in common and no server sees; made by
    `hedgerow.parties.roles.uploading.make_align_key`.
    `id_type`: what these owners have agreed that ids are, public; "number": all are whole numbers.
    `lifetime_epsilon`: what jobs of the servers may charge to the population in all, if not all
    that the policy of this owner has left; it stays until another one is given.
    Raises H905 if this party is no owner, H858 by its own policy or a server, H886 by a server,
    H887 if this content was uploaded for another population, and whatever is wrong with the table:
    those name rows, for the owner's eyes alone.
    """
    begun = time.monotonic()
    check_owner(config)
    check_name(id, "upload")
    check_name(population, "population")
    table = table if isinstance(table, SqlQuery) else Path(table)
    n_slots = check_public(domain, slots, ids, align_key)
    check_option("id_type", id_type, IdKind)
    key = None if align_key is None else read_state_key(align_key)
    check_listed(config, population)
    claim = Claim(config.state.path(_LOCK))
    try:
        store = open_store(config.state)
        _take_over(config, store)
        with store.snapshot() as made:
            before = [jsonfile.loads(e, Code.JOURNAL_DAMAGED) for e in made.upload_events()]
        progress("reading", 0, 1)
        # A query is run once: other rows may be there a moment later.
        rows = read_table(table, domain=domain) if isinstance(table, SqlQuery) else table
        content = _content_hash(config, rows)
        _check_before(before, id, population, content)
        encoded = encode_part(rows, domain, target, ids, text)
        progress("sharing", 0, 1)
        padded = place_records(encoded, n_slots, key, id_type)
        # Not before: a server that was asked and gets nothing knows that a row was refused.
        for server in config.servers:
            call_member(config, server, "upload-check", {"id": id, "population": population})
        terms = send_terms(config, population, lifetime_epsilon, for_upload=True)
        planes = pack(planes_of(padded))
        parts = deal(planes, xor=True)
        salt = secrets.token_bytes(SALT_BYTES)
        joined = {} if key is None else {"alignment": key_check(key), "ids": id_type}
        owned = (id, population, config.name)
        manifest = _manifest(padded.domain, owned, n_slots, parts, salt, joined)
        entry = {"id": id, "population": population, "hash": content, "slots": n_slots}
        _add_event(store, {"event": "begun", "time": time.time(), **entry})
        sent = _send(config, manifest, parts, salt, progress)
        _add_event(store, {"event": "done", "time": time.time(), **entry})
    finally:
        claim.release()
    return Receipt(manifest, sent, time.monotonic() - begun, terms)


def renew_terms(config: PartyConfig, population: str, lifetime_epsilon: float | None) -> OwnerTerms:
    """Tell the servers what this owner allows now on its uploads of a population; see `send_terms`.

    H905 if this party is no owner, H888 if it has shared no rows of the population.
    """
    check_owner(config)
    if population not in shared_populations(config):
        raise Code.UNKNOWN_UPLOAD.error(
            expected="a population of which this owner has shared rows",
            found=f"population {population!r}",
            fix="correct the name; `hedgerow upload` sends terms with the first upload",
        )
    claim = Claim(config.state.path(_LOCK))
    try:
        return send_terms(config, population, lifetime_epsilon)
    finally:
        claim.release()


def check_owner(config: PartyConfig) -> None:
    """Refuse, H905, a party that is no owner beside three servers."""
    if config.role != "owner":
        raise Code.WRONG_ROLE.error(
            expected="an owner", found=f"{config.name}, which is {config.me.kind}"
        )
    config.check_servers()


def _add_event(store: Store, entry: Mapping[str, Any]) -> None:
    with store.transaction(f"upload {entry['event']}") as made:
        made.add_upload_event(json.dumps(entry, sort_keys=True))


def _take_over(config: PartyConfig, store: Store) -> None:
    """Take over the record of uploads that an earlier version has left, once."""
    path = config.state.path(_JOURNAL)
    if not os.path.lexists(path):
        return
    about = {"kind": "uploads", "owner": config.name}
    with locked_journal(path, about) as entries:
        with store.transaction("import uploads") as made:
            # After a crash before the file was renamed they are there.
            known = set(made.upload_events())
            for text in (json.dumps(entry, sort_keys=True) for entry in entries):
                if text not in known:
                    made.add_upload_event(text)
        os.rename(path, config.state.path(f"imported-{_JOURNAL}"))
        sync_folder(config.state.root)


def _content_hash(config: PartyConfig, table: Path | pa.Table) -> str:
    """Hash a file, or rows in their order, with a key that never leaves this party."""
    path = config.folder / "keys" / HASH_KEY
    if not os.path.lexists(path):
        make_state_key(path)
    total = hmac.new(read_state_key(path), digestmod=hashlib.sha256)
    if isinstance(table, pa.Table):
        total.update(table.schema.serialize())
        for batch in table.combine_chunks().to_batches(max_chunksize=_HASHED_ROWS):
            total.update(batch.serialize())
        return total.hexdigest()
    try:
        with table.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
    except OSError as error:
        raise Code.UNREADABLE_FILE.error(found=f"{place_name(table)}: {error.strerror}") from None
    return total.hexdigest()


def _check_before(before: Sequence[Entry], id: str, population: str, content: str) -> None:
    """Refuse an id of an earlier upload, and the same file in the name of other people."""
    for entry in before:
        if entry["event"] == "done" and entry["id"] == id:
            raise Code.UPLOAD_ID_USED.error(found=f"id {id!r} again")
        if entry["hash"] == content and entry["population"] != population:
            raise Code.BAD_UPLOAD.error(
                expected=f"population {entry['population']}, as in upload {entry['id']}",
                found=f"the same file for population {population}",
                fix="name the population that the records belong to: it has one account",
            )


def _manifest(
    domain: Domain,
    owned: tuple[str, str, str],
    rows: int,
    parts: Sequence[Dealt],
    salt: bytes,
    joined: Mapping[str, Any],
) -> UploadManifest:
    """Describe an upload by its id, population and owner; `joined` is what columns add."""
    id, population, owner = owned
    correction = parts[1].correction
    assert correction is not None
    return UploadManifest(
        version=format_version(domain, tagged=bool(joined)),
        id=id,
        population=population,
        owner=owner,
        rows=rows,
        seeds=tuple(seed_digest(id, j, parts[0].seeds[j]) for j in (0, 1)),
        correction=correction_digest(id, salt, correction),
        # The capacity of one owner is not that of the table.
        domain=domain.model_copy(update={"capacity": None}),
        **joined,
    )


def _send(
    config: PartyConfig,
    manifest: UploadManifest,
    parts: Sequence[Dealt],
    salt: bytes,
    progress: Progress,
) -> int:
    text = manifest.to_json().encode()
    fields: Fields = {"id": manifest.id, "manifest": len(text)}
    every = [_pieces(text, server, part, salt) for server, part in enumerate(parts)]
    total = sum(memoryview(piece).nbytes for pieces in every for piece in pieces)
    done = [0] * len(every)

    def blocks(server: int) -> Iterator[memoryview]:
        for piece in every[server]:
            view = memoryview(piece).cast("B")
            for at in range(0, len(view), BLOCK_BYTES):
                yield view[at : at + BLOCK_BYTES]
                done[server] += len(view[at : at + BLOCK_BYTES])
                progress("sending", sum(done), total)

    def post(server: int) -> None:
        length = sum(memoryview(piece).nbytes for piece in every[server])
        body = Body(length, blocks(server))
        reply = call_member(config, config.servers[server], "upload", fields, body)
        if reply.fields.get("digest") != manifest.digest:
            raise Code.BAD_REPLY.error(
                expected=f"{config.servers[server].name} to have kept {manifest.id}",
                found="a reply about something else",
            )

    with ThreadPoolExecutor(len(every)) as pool:
        results = [pool.submit(post, server) for server in range(len(every))]
        failures = [failure for result in results if (failure := result.exception())]
    for failure in failures:
        if isinstance(failure, HedgerowError):
            again = failure.code.error(
                expected=failure.expected,
                found=failure.found,
                fix=f"{failure.fix}; then upload under another id: {manifest.id} is used up",
            )
            again.party = failure.party
            raise again from failure
        raise failure
    return total


def _pieces(text: bytes, server: int, part: Dealt, salt: bytes) -> list[Any]:
    pieces: list[Any] = [text, *(part.seeds[j] for j in seeds_held(server))]
    if part.correction is not None:
        pieces += [salt, np.ascontiguousarray(part.correction, dtype="<u8").reshape(-1).data]
    return pieces
