"""Manifests: the same bytes at all servers, and nothing in them that tells of the table."""

import json
import secrets

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.manifests import (
    MAX_MANIFEST_BYTES,
    UploadManifest,
    correction_digest,
    seed_digest,
)
from hedgerow.secure.replicated.outside import deal
from hedgerow.tables import Target
from tests.parties.roles.upload_servers import DOMAIN
from tests.parties.runs.party_jobs import ZERO, make_manifest
from tests.parties.wire.parties_calls import refuses


def test_written_and_read_back() -> None:
    manifest = make_manifest(rows=70)
    again = UploadManifest.from_json(manifest.to_json())
    assert again == manifest
    assert again.digest == manifest.digest
    assert manifest.shape == (8, 70)
    assert manifest.packed == (8, 2)
    assert [manifest.payload_bytes(server) for server in range(3)] == [32, 48 + 128, 48 + 128]
    assert manifest.summary()["slots"] == 70


def test_every_field_counts_in_the_digest() -> None:
    found = {
        make_manifest().digest,
        make_manifest("south-1").digest,
        make_manifest(rows=51).digest,
        make_manifest(owner="south").digest,
        make_manifest(population="staff").digest,
        make_manifest(alignment=ZERO).digest,
        make_manifest(alignment=ZERO, ids="text", version=3).digest,
        make_manifest(alignment=ZERO, ids="number", version=3).digest,
        make_manifest(seeds=("1" * 64, ZERO)).digest,
        make_manifest(domain=DOMAIN.select(["age", "ward"])).digest,
    }
    assert len(found) == 10


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 0},
        {"rows": 1.5},
        {"rows": True},
        {"seeds": [ZERO]},
        {"seeds": [ZERO, ZERO.upper() + "g"]},
        {"correction": ZERO + "\n"},
        {"correction": "A" * 64},
        {"version": 2},
        {"more": 1},
        {"alignment": "x"},
        {"alignment": None},
        {"version": 3},
        {"version": 3, "ids": "text"},
        {"version": 1, "ids": "text", "alignment": ZERO},
        {"version": 3, "ids": "name", "alignment": ZERO},
    ],
)
def test_what_is_refused(change) -> None:
    text = json.dumps(make_manifest().to_dict() | change)
    refuses(Code.BAD_UPLOAD, lambda: UploadManifest.from_json(text))


def test_a_numeric_target_is_another_version() -> None:
    numeric = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0.0, 9.0))})
    manifest = make_manifest(domain=numeric, version=2)
    assert manifest.to_dict()["version"] == 2
    # Seven bits of presence and attributes, and 22 of a step of the grid.
    assert manifest.planes == 7 + 22
    assert UploadManifest.from_json(manifest.to_json()) == manifest
    for changes in ({"domain": numeric}, {"version": 2}, {"version": 3, "domain": numeric}):
        refuses(Code.BAD_UPLOAD, lambda changes=changes: make_manifest(**changes))
    # An owner of other columns, without the target.
    assert make_manifest(domain=numeric.select(["age"], target=False)).to_dict()["version"] == 1


def test_texts_that_are_no_manifests() -> None:
    for text in ("", "[]", "{}", '{"a":1,"a":1}', "x" * (MAX_MANIFEST_BYTES + 1), b"\xff"):
        refuses(Code.BAD_UPLOAD, lambda text=text: UploadManifest.from_json(text))


def test_digests_are_of_one_upload_and_one_share() -> None:
    seed = secrets.token_bytes(16)
    assert len({seed_digest(id, j, seed) for id in ("a", "b") for j in (0, 1)}) == 4
    words = np.arange(6, dtype=np.uint64).reshape(2, 3)
    salt = secrets.token_bytes(32)
    assert correction_digest("a", salt, words) == correction_digest("a", salt, words.copy("F"))
    assert correction_digest("a", salt, words) != correction_digest("b", salt, words)


def test_the_server_with_both_seeds_cannot_try_out_tables() -> None:
    """It could compute the correction of any table; without the salt it has nothing to compare."""
    words = np.zeros((3, 1), dtype=np.uint64)
    parts = deal(words, xor=True)
    correction = parts[1].correction
    digests = {correction_digest("a", secrets.token_bytes(32), correction) for _ in range(3)}
    assert len(digests) == 3


def test_columns_with_tags_are_another_version() -> None:
    manifest = make_manifest(alignment=ZERO, ids="number", version=3)
    assert manifest.planes == make_manifest().planes + 128
    assert manifest.to_dict()["ids"] == "number"
    assert UploadManifest.from_json(manifest.to_json()) == manifest
    # Manifests of rows are written as they were, so that their digests stay.
    assert "ids" not in make_manifest().to_dict()
    assert not make_manifest(alignment=ZERO).tagged
