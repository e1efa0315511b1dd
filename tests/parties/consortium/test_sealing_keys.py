"""Owners seal to keys that the servers have signed for this run, and to no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code
from hedgerow.parties.consortium.members import add_certificate
from hedgerow.parties.consortium.renewal import renew_keys, switch_keys
from hedgerow.parties.consortium.sealing_keys import SignedKey, checked_keys
from hedgerow.parties.runs.topdown_job import TopDownJob
from tests.parties.consortia import read_key, write_certificate
from tests.parties.runs.topdown_jobs import SERVERS, make_job
from tests.parties.towns import Town
from tests.parties.wire.parties_calls import refuses

OWNERS = ("north", "south")
RUN = bytes(range(16))
PLAN = {"method": "secure-counts", "n_splits": 2, "max_depth": 2}
SECRETS = {name: SealingKey(bytes([i + 1]) * 32) for i, name in enumerate(SERVERS)}


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, owners=OWNERS, servers=SERVERS, coordinator="delta")


@pytest.fixture
def job() -> TopDownJob:
    return make_job(owners=list(OWNERS), plan=PLAN)


def signed(town: Town, job: TopDownJob, run: bytes = RUN, private: bool = True) -> list[SignedKey]:
    return [
        SignedKey.sign(SECRETS[name], town.parties[name], job, run, private=private)
        for name in SERVERS
    ]


def of_the_coordinator(town: Town, job: TopDownJob) -> list[SignedKey]:
    """Put in by the coordinator, with the one signature that it can make."""
    keys = signed(town, job)
    keys[1] = SignedKey.sign(SealingKey(), town.parties["delta"], job, RUN, private=True)
    return keys


def under_a_servers_signature(town: Town, job: TopDownJob) -> list[SignedKey]:
    keys = signed(town, job)
    keys[1] = replace(keys[1], public=SealingKey().public)
    return keys


def of_another_run(town: Town, job: TopDownJob) -> list[SignedKey]:
    return signed(town, job, bytes(16))


def of_another_job(town: Town, job: TopDownJob) -> list[SignedKey]:
    return signed(town, make_job(owners=list(OWNERS), plan=PLAN, name="other"))


def in_another_order(town: Town, job: TopDownJob) -> list[SignedKey]:
    return signed(town, job)[::-1]


def with_repeatable_noise(town: Town, job: TopDownJob) -> list[SignedKey]:
    return signed(town, job, private=False)


def said_to_be_private(town: Town, job: TopDownJob) -> list[SignedKey]:
    return [replace(key, private=True) for key in signed(town, job, private=False)]


def test_other_keys_are_refused(town: Town, job: TopDownJob) -> None:
    north = town.parties["north"]
    for keys in (
        of_the_coordinator,
        under_a_servers_signature,
        of_another_run,
        of_another_job,
        in_another_order,
        with_repeatable_noise,
        said_to_be_private,
    ):
        made = keys(town, job)
        refuses(
            Code.SEALED_REFUSED,
            lambda made=made: checked_keys(made, north, job, RUN, private=True),
        )
    assert checked_keys(signed(town, job), north, job, RUN, private=True)


def test_an_owner_needs_the_certificates_of_the_servers(town: Town, job: TopDownJob) -> None:
    north = town.parties["north"]
    keys = signed(town, job)
    assert checked_keys(keys, north, job, RUN, private=True) == tuple(
        SECRETS[name].public for name in SERVERS
    )
    (north.folder / "members" / "birch.pem").unlink()
    refuses(Code.MISSING_CERTIFICATE, lambda: checked_keys(keys, north, job, RUN, private=True))


def test_a_server_that_renews_its_key_signs_with_either(town: Town, job: TopDownJob) -> None:
    north, server = town.parties["north"], town.parties[SERVERS[1]]
    old = signed(town, job)
    renew_keys(server)
    add_certificate(north, server.next_identity.certificate)
    switch_keys(server, ask=False)
    new = signed(town, job)
    assert new[1].signature != old[1].signature
    for keys in (old, new):
        found = checked_keys(keys, north, job, RUN, private=True)
        assert found == tuple(SECRETS[name].public for name in SERVERS)
    # One whose time is over signs for nobody.
    key = read_key(server)
    path = north.certificate_file(SERVERS[1])
    write_certificate(path, SERVERS[1], key=key, days=(-9, -1))
    refuses(Code.CERTIFICATE_EXPIRED, lambda: checked_keys(new, north, job, RUN, private=True))


def test_keys_are_read_strictly(town: Town, job: TopDownJob) -> None:
    key = signed(town, job)[0]
    assert SignedKey.from_bytes(key.to_bytes()) == key
    good = key.to_dict()
    for bad in (
        good | {"more": 1},
        good | {"public": good["public"][2:]},
        good | {"public": good["public"].upper() + "Z"},
        good | {"signature": 7},
        good | {"private": 1},
        {},
        [],
    ):
        refuses(Code.SEALED_REFUSED, lambda bad=bad: SignedKey.from_dict(bad))
    for text in (b"", b"[]", b"nothing"):
        refuses(Code.SEALED_REFUSED, lambda text=text: SignedKey.from_bytes(text))
