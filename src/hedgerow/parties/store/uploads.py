"""Uploads at a server: taken once, checked whole, kept encrypted; see `roles.uploading`.

Payload of the verb ``upload``: the manifest as JSON (its length is a field), the server's seeds in
order, and, for servers 1 and 2, a salt of 32 bytes and the correction as little-endian words.
On the disk: ``state/uploads/<id>/part.vault`` and, last, a row of the party's store with the
manifest. A row without one is an upload that was not completed, or that its owner has withdrawn:
its part is removed after the row has changed. Its id is used up all the same.
"""

from __future__ import annotations

import hmac
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import jsonfile
from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import shown
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.names import RequestedName, check_name
from hedgerow.parties.consortium.policy import MAX_TERMS_BYTES, OwnerTerms, Policy
from hedgerow.parties.runs.job_tables import UploadsJob, ordered_manifests, plane_order
from hedgerow.parties.runs.stages import forget_stages
from hedgerow.parties.runs.store import PartyRun, RunStore
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import FOLDER_MODE, StateFolder, sync_folder
from hedgerow.parties.store.manifests import (
    MAX_MANIFEST_BYTES,
    SALT_BYTES,
    UploadManifest,
    correction_digest,
    seed_digest,
    seeds_held,
)
from hedgerow.parties.store.vault import read_arrays, write_arrays
from hedgerow.parties.wire.handlers import Caller, Incoming, RequestFields, verb
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.protocols.sharing.uploaded import HeldUpload, n_planes
from hedgerow.secure.replicated.outside import Dealt

LARGEST = 1 << 32
"""Bytes of one upload, by default."""

FOLDER, PART = "uploads", "part.vault"
_KEPT, _WITHDRAWN = "upload", "withdrawn"
"""What the trail tells of an upload."""


class UploadCheckFields(RequestFields):
    """An id for an upload, and the population that it would be of."""

    id: RequestedName
    population: RequestedName


class TermsFields(RequestFields):
    """The population that terms are about."""

    population: RequestedName


class WithdrawFields(RequestFields):
    """The id of an upload; `check`: only ask whether it would be withdrawn."""

    id: RequestedName
    check: bool = False


class UploadFields(RequestFields):
    """The id of an upload; `manifest`: bytes of its manifest, with which the payload begins."""

    id: RequestedName
    manifest: int


def list_uploads(state: StateFolder) -> list[UploadManifest]:
    """Return the manifests of all complete uploads, by id."""
    found = _uploads(state)
    return [_parse(upload, text) for upload, text in found.items() if text is not None]


def is_here(state: StateFolder, upload: str) -> bool:
    """Whether an upload is complete at a server."""
    return _uploads(state).get(check_name(upload, "upload")) is not None


def read_manifest(state: StateFolder, upload: str) -> UploadManifest:
    """Return the manifest of an upload; H888 if it is not whole here, H946 if it was withdrawn."""
    state.path(FOLDER, check_name(upload, "upload"), PART)
    text = _uploads(state).get(upload)
    if text is None and upload in withdrawn_uploads(state):
        raise Code.UPLOAD_WITHDRAWN.error(found=f"upload {upload!r}, which its owner has withdrawn")
    if text is None:
        raise Code.UNKNOWN_UPLOAD.error(found=f"upload {upload!r}, which is not here")
    return _parse(upload, text)


def _parse(upload: str, text: str) -> UploadManifest:
    manifest = UploadManifest.from_json(text)
    if manifest.id != upload:
        raise Code.BAD_UPLOAD.error(
            expected=f"the manifest of {upload}", found=f"that of {manifest.id}"
        )
    return manifest


def _uploads(state: StateFolder) -> dict[str, str | None]:
    state.folder(FOLDER)
    with open_store(state).snapshot() as made:
        return made.uploads()


def withdrawn_uploads(state: StateFolder) -> dict[str, dict[str, Any]]:
    """Return the public figures of uploads that were withdrawn, by id."""
    with open_store(state).snapshot() as made:
        found = made.rows("withdrawals")
    return {row["id"]: jsonfile.loads(row["summary"], Code.JOURNAL_DAMAGED) for row in found}


def remove_withdrawn(state: StateFolder, runs: Sequence[PartyRun]) -> None:
    """Remove what is left of withdrawn uploads that a server was about to remove when it ended."""
    for upload in withdrawn_uploads(state):
        _remove_part(state, upload, runs)


def _remove_part(state: StateFolder, upload: str, runs: Sequence[PartyRun]) -> None:
    """Remove the part of an upload, and what runs that have ended have kept of its rows."""
    for run in _naming(upload, runs):
        forget_stages(state, run.id)
    folder = state.path(FOLDER, upload)
    if not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise Code.STATE_NOT_WRITTEN.error(found=f"{folder}: {error.strerror}") from None


def open_upload(state: StateFolder, key: bytes, upload: str) -> tuple[UploadManifest, Dealt]:
    """Return an upload and this server's part of its shares.

    H888 if it is not there; H860 to H864 for the vault, also if the manifest was changed since.
    """
    manifest = read_manifest(state, upload)
    path = state.path(FOLDER, upload, PART)
    arrays = read_arrays(path, key, about=_about(manifest))
    correction = arrays.pop("correction", None)
    seeds = {j: arrays[f"seed {j}"].tobytes() for j in (0, 1) if f"seed {j}" in arrays}
    return manifest, Dealt(seeds, correction)


def held_uploads(
    job: UploadsJob, held: Mapping[int, Sequence[tuple[UploadManifest, Dealt]]]
) -> list[HeldUpload]:
    """Place what servers hold of the uploads of a job in the slots of its plan.

    `held` has, for every server that lives here (0, 1, 2), what `open_upload` returned; that
    manifests are equal at all servers is for the caller to compare. H910 as ``job.uploads_for``.
    """
    parts = {
        server: {manifest.id: dealt for manifest, dealt in pairs} for server, pairs in held.items()
    }
    first = next(iter(held.values()))
    manifests = ordered_manifests(job, [manifest for manifest, _ in first])
    uploads, domain = job.uploads_for(manifests), job.make_plan().domain
    placed = []
    for upload, manifest in zip(uploads, manifests, strict=False):
        mine = {server: known[manifest.id] for server, known in parts.items()}
        placed.append(HeldUpload(upload, manifest.shape, mine, plane_order(domain, manifest)))
    empty = uploads[len(manifests) :]
    return placed + [HeldUpload(one, (n_planes(domain), one.rows), None) for one in empty]


class UploadVerbs:
    """What a server answers to owners about uploads, for the populations of its policy.

    It takes one upload at a time of each owner, so that memory is bounded. `runs` are those of this
    server.
    """

    def __init__(self, config: PartyConfig, policy: Policy, key: bytes, runs: RunStore) -> None:
        self.state, self.server, self.policy = config.state, config.number, policy
        self.owners = [member.name for member in config.members if member.role == "owner"]
        self.key, self._runs = key, runs
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self.state.folder(FOLDER)

    @verb("upload-check", ("owner",), twice="nothing changes.")
    def check(self, caller: Caller, fields: UploadCheckFields) -> tuple[Fields, Payload]:
        """Say whether an id is free, so that an owner finds out before it sends.

        Reply: ``server``, its number, and ``owner``, the caller's name.
        """
        self._check_free(caller.name, fields.id)
        self._check_population(fields.population)
        return {"server": self.server, "owner": caller.name}, None

    def expect(self, caller: Caller, fields: UploadFields, octets: int) -> None:
        """Refuse an upload by its header, before any of it is asked for."""
        _check_manifest_bytes(fields.manifest, octets)
        self._check_free(caller.name, fields.id)
        self._check_room(caller.name, octets)

    @verb(
        "terms",
        ("owner",),
        largest=MAX_TERMS_BYTES,
        twice="the same terms once more change nothing; those that came last count.",
        leaves="the terms, and a line of the trail: `state_bytes_per_member`.",
    )
    def terms(
        self, caller: Caller, fields: TermsFields, payload: Incoming
    ) -> tuple[Fields, Payload]:
        """Take what an owner allows on all its uploads of a population, in place of what it did.

        Payload: `OwnerTerms`, as JSON. Reply: ``server``, its number, and ``digest`` of the terms.
        """
        self._check_population(fields.population)
        terms = OwnerTerms.from_json(payload.read())
        if terms.owner != caller.name or set(terms.populations) - {fields.population}:
            raise Code.BAD_UPLOAD.error(
                expected=f"what {caller.name} allows on {fields.population}",
                found=f"terms of {terms.owner} on {', '.join(terms.populations)}",
            )
        text = terms.to_json()
        with open_store(self.state).transaction("keep terms") as made:
            if made.terms(fields.population).get(caller.name) != text:
                made.owe(self.policy.quota(caller.name), len(text))
                made.put_terms(caller.name, fields.population, text)
                told = {"owner": caller.name, "population": fields.population}
                made.tell("terms", {**told, "terms": json.loads(text)})
        return {"server": self.server, "digest": terms.digest}, None

    @verb("uploads", ("owner", "analyst", "server"), twice="nothing changes.")
    def list(self, caller: Caller) -> tuple[Fields, Payload]:
        """List public figures of all uploads; to an owner also what has become of its own.

        Reply: ``server``, its number, and as payload an object with ``uploads``. Of the caller's
        own, those that were withdrawn too, with ``runs`` that name them, ``since`` when they are
        here and when they were ``withdrawn``.
        """
        rows = [manifest.summary() for manifest in list_uploads(self.state)]
        rows += [
            one for one in withdrawn_uploads(self.state).values() if one["owner"] == caller.name
        ]
        with open_store(self.state).snapshot() as made:
            times = {
                kind: {one.fields()["id"]: one.time for one in made.entries_of(kind)}
                for kind in (_KEPT, _WITHDRAWN)
            }
        for row in rows:
            if row["owner"] == caller.name:
                row["since"], row["withdrawn"] = (times[k].get(row["id"]) for k in times)
                row["runs"] = [run.id for run in _naming(row["id"], self._runs.all())]
        return {"server": self.server}, json.dumps({"uploads": rows}).encode()

    @verb(
        "upload-withdraw",
        ("owner",),
        twice="an upload that is withdrawn stays so; what may be left of its part is removed.",
        leaves="a line of the trail, once for an upload, which counted when it was taken.",
    )
    def withdraw(self, caller: Caller, fields: WithdrawFields) -> tuple[Fields, Payload]:
        """Remove this server's part of an upload of the caller, or ask whether it would be.

        Its id stays used up, and what was charged for it stays charged. Reply: ``server``, its
        number, ``id`` and ``digest``. H947 while a run that names it is open.
        """
        upload, store = fields.id, open_store(self.state)
        gone = withdrawn_uploads(self.state).get(upload)
        figures = read_manifest(self.state, upload).summary() if gone is None else gone
        if figures["owner"] != caller.name:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"{figures['owner']}, which has shared {upload}", found=caller.name
            )
        with self._runs.at_rest() as runs:
            open_ = [run.id for run in _naming(upload, runs) if run.is_open]
            if gone is None and open_:
                raise Code.UPLOAD_IN_USE.error(
                    expected=f"no open run that names {upload}", found=", ".join(open_)
                )
            if gone is None and not fields.check:
                # One that begins after this finds no upload, before it is charged.
                with store.transaction("withdraw an upload") as made:
                    made.put_upload(upload, None)
                    summary = json.dumps(figures, sort_keys=True)
                    made.put("withdrawals", {"id": upload, "summary": summary})
                    told = {key: figures[key] for key in ("id", "owner", "population", "digest")}
                    made.tell(_WITHDRAWN, told)
            if not fields.check:
                _remove_part(self.state, upload, runs)
        return {"server": self.server, "id": upload, "digest": figures["digest"]}, None

    @verb(
        "upload",
        ("owner",),
        largest=LARGEST + MAX_MANIFEST_BYTES + 1024,
        expects="expect",
        twice="an id is used up by the first upload that has it; the second is refused (H886).",
        leaves="the part and its manifest: `largest_upload_bytes`, `upload_bytes_per_owner`; the "
        "manifest, the id and a line of the trail: `state_bytes_per_member`.",
    )
    def keep(
        self, caller: Caller, fields: UploadFields, payload: Incoming
    ) -> tuple[Fields, Payload]:
        """Take an upload: read and check all of it, then keep it.

        Payload: the manifest, the server's seeds and, for all but the first, salt and correction.
        Reply: ``server``, its number, ``id`` and ``digest``.
        """
        upload, size = fields.id, fields.manifest
        _check_manifest_bytes(size, payload.length)
        with self._one_at_a_time(caller.name):
            manifest = UploadManifest.from_json(payload.read(size))
            if (manifest.id, manifest.owner) != (upload, caller.name):
                raise Code.BAD_UPLOAD.error(
                    expected=f"the manifest of {upload} by {caller.name}",
                    found=f"that of {manifest.id} by {manifest.owner}",
                )
            self._check_free(caller.name, upload)
            # Another upload of this owner may have ended since the header was looked at.
            self._check_room(caller.name, payload.length)
            self._check_population(manifest.population)
            expected = manifest.payload_bytes(self.server)
            if payload.left != expected:
                raise Code.BAD_UPLOAD.error(
                    expected=f"{expected} bytes for server {self.server}: {manifest.planes} "
                    f"planes of {manifest.rows} slots",
                    found=f"{payload.left} bytes",
                )
            self._store(manifest, _read_part(manifest, self.server, payload))
        return {"server": self.server, "id": upload, "digest": manifest.digest}, None

    def _check_population(self, population: str) -> None:
        # Shares of people whom this server does not compute on would lie here for nothing.
        self.policy.check_account(population, spent=0.0, epsilon=0.0)

    def _check_room(self, owner: str, octets: int) -> None:
        # With their manifests: of a large table the first server holds two seeds and no more.
        kept = sum(
            len(manifest.to_json().encode()) + manifest.payload_bytes(self.server)
            for manifest in list_uploads(self.state)
            if manifest.owner == owner
        )
        self.policy.check_upload(octets, kept=kept)

    def _check_free(self, owner: str, upload: str) -> None:
        """Refuse an id that is used, and one that begins with the name of another owner."""
        named = [name for name in self.owners if f"{upload}-".startswith(f"{name}-")]
        # Of north and north-east, north-east-1 is that of the second.
        holder = max(named, key=len, default=owner)
        if holder != owner:
            raise Code.UPLOAD_ID_RESERVED.error(found=f"id {upload!r}, by {owner}")
        if os.path.lexists(self.state.path(FOLDER, upload)) or upload in _uploads(self.state):
            raise _id_used(upload)

    def _store(self, manifest: UploadManifest, arrays: Mapping[str, np.ndarray]) -> None:
        id, store = manifest.id, open_store(self.state)
        # From here on the id is used up, whatever happens.
        with store.transaction("use up an upload id") as made:
            if id in made.uploads():
                raise _id_used(id)
            made.owe(self.policy.quota(manifest.owner), len(manifest.to_json()))
            made.put_upload(id, None)
        folder = self.state.folder(FOLDER) / id
        try:
            folder.mkdir(mode=FOLDER_MODE)
            sync_folder(folder.parent)
        except FileExistsError:
            raise _id_used(id) from None
        except OSError as error:
            raise Code.STATE_NOT_WRITTEN.error(found=f"{folder}: {error.strerror}") from None
        part: Path = self.state.path(FOLDER, id, PART)
        write_arrays(part, arrays, self.key, about=_about(manifest))
        with store.transaction("keep an upload") as made:
            made.put_upload(id, manifest.to_json())
            told = {"population": manifest.population, "digest": manifest.digest}
            made.tell(_KEPT, {"id": id, "owner": manifest.owner, **told})

    @contextmanager
    def _one_at_a_time(self, owner: str) -> Iterator[None]:
        with self._lock:
            if owner in self._busy:
                raise Code.SERVICE_BUSY.error(
                    expected="one upload at a time of each owner",
                    found=f"another one of {owner} under way",
                )
            self._busy.add(owner)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(owner)


def _read_part(manifest: UploadManifest, server: int, payload: Incoming) -> dict[str, np.ndarray]:
    """Read a server's part and compare it with its digests."""
    arrays: dict[str, np.ndarray] = {}
    for j in seeds_held(server):
        seed = payload.read(KEY_BYTES)
        _compare(f"seed {j}", seed_digest(manifest.id, j, seed), manifest.seeds[j])
        arrays[f"seed {j}"] = np.frombuffer(seed, dtype=np.uint8)
    if server == 0:
        return arrays
    salt = payload.read(SALT_BYTES)
    words = np.empty(manifest.packed, dtype="<u8")
    payload.read_into(words.reshape(-1).data)
    correction = words.astype(np.uint64, copy=False)
    found = correction_digest(manifest.id, salt, correction)
    _compare("the correction", found, manifest.correction)
    arrays["salt"] = np.frombuffer(salt, dtype=np.uint8)
    return arrays | {"correction": correction}


def _naming(upload: str, runs: Sequence[PartyRun]) -> list[PartyRun]:
    """Return the runs whose job names an upload."""
    return [run for run in runs if isinstance(run.job, UploadsJob) and upload in run.job.uploads]


def _check_manifest_bytes(size: int, octets: int) -> None:
    if not 0 < size <= min(MAX_MANIFEST_BYTES, octets):
        raise Code.BAD_UPLOAD.error(found=f"a manifest of {shown(size)} bytes")


def _compare(what: str, found: str, expected: str) -> None:
    if not hmac.compare_digest(found, expected):
        raise Code.BAD_UPLOAD.error(expected=f"{what} as its digest says", found="another one")


def _about(manifest: UploadManifest) -> dict[str, str | int]:
    return {"kind": "upload", "upload": manifest.id, "manifest": manifest.digest}


def _id_used(upload: str) -> HedgerowError:
    return Code.UPLOAD_ID_USED.error(found=f"id {upload!r} again")
