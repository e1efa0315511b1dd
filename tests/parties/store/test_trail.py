"""The trail: entries that were changed, moved, dropped, or signed by somebody else are found."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.net.certificates import Identity, make_identity
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.renewal import renew_keys, switch_keys
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.trail import KEY, TrailEntry, next_entry, verify
from tests.parties.towns import Town
from tests.parties.wire.parties_calls import refuses

runner = CliRunner()


@pytest.fixture
def mine(tmp_path: Path) -> Identity:
    return make_identity(tmp_path, "north")


def chain(signer: Identity | None, n: int = 4) -> list[TrailEntry]:
    entries: list[TrailEntry] = []
    if signer is not None:
        entries.append(next_entry(None, KEY, {"certificate": signer.pem}, signer))
    while len(entries) < n:
        last = entries[-1] if entries else None
        entries.append(next_entry(last, "note", {"k": len(entries)}, signer))
    return entries


def test_what_entries_are(mine: Identity) -> None:
    entries = chain(mine)
    assert [entry.n for entry in entries] == [1, 2, 3, 4]
    assert verify(entries, (), mine.pem) == entries[-1]
    assert verify(entries, ()) == entries[-1]
    assert verify([], (), mine.pem) is None
    assert entries[2].fields() == {"k": 2}
    with pytest.raises(ValueError, match="own words"):
        next_entry(None, "note", {"time": 3.0})
    with pytest.raises(ValueError, match="JSON"):
        next_entry(None, "note", {"x": float("inf")})


@pytest.mark.parametrize("signed", [True, False])
def test_what_was_changed_is_found(mine: Identity, signed: bool) -> None:
    entries = chain(mine if signed else None)
    certificate = mine.pem if signed else None
    a, b, c, d = entries
    for changed in (
        [b, c, d],
        [a, c, d],
        [a, c, b, d],
        [a, b, b, c, d],
        [a, b, replace(c, n=4), d],
        [a, b, replace(c, body=c.body.replace('"k":2', '"k":3')), d],
        [a, b, replace(c, kind="charge"), d],
        [a, b, replace(c, hash=d.hash), d],
        [a, b, c, next_entry(c, "charge", {})],
    ):
        refuses(Code.TRAIL_BROKEN, lambda changed=changed: verify(changed, (), certificate))


def test_signatures_of_others(mine: Identity, tmp_path: Path) -> None:
    other = make_identity(tmp_path, "other")
    entries = chain(mine)
    a, b, c, d = entries
    forged = replace(d, signature=next_entry(c, "note", {"k": 3}, other).signature)
    for changed in (
        [a, b, c, forged],
        [a, b, c, replace(d, signature=b"")],
        [a, b, replace(c, signature=d.signature), d],
        chain(None),
        chain(other),
        # Somebody who goes on with a key of its own.
        [*entries, next_entry(d, KEY, {"certificate": other.pem}, other)],
        # A certificate that stands there and has not signed.
        [*entries, next_entry(d, KEY, {"certificate": other.pem}, mine)],
    ):
        refuses(Code.TRAIL_BROKEN, lambda changed=changed: verify(changed, (), mine.pem))


def test_a_new_key_stands_for_what_the_earlier_one_has_signed(
    mine: Identity, tmp_path: Path
) -> None:
    new = make_identity(tmp_path, "new")
    entries = chain(mine)
    entries.append(next_entry(entries[-1], KEY, {"certificate": new.pem}, new))
    entries.append(next_entry(entries[-1], "note", {}, new))
    assert verify(entries, (), new.pem) == entries[-1]
    refuses(Code.TRAIL_BROKEN, lambda: verify(entries, (), mine.pem))
    changed = [replace(entries[0], body=entries[0].body + " "), *entries[1:]]
    refuses(Code.TRAIL_BROKEN, lambda: verify(changed, (), new.pem))


@pytest.fixture
def party(tmp_path: Path) -> PartyConfig:
    town = Town(tmp_path, owners=("north",), coordinator="delta")
    accounts = Accounts(town.parties["north"].state, town.policy("north"))
    accounts.charge("patients", "a" * 64, 1.5, 1e-12, what="topdown wards, as north")
    accounts.charge("patients", "b", 0.25)
    return town.parties["north"]


def verified(config: PartyConfig) -> TrailEntry | None:
    with open_store(config.state).snapshot() as made:
        return verify(made.trail(), made.charges(), config.identity.pem)


def test_every_charge_is_told_and_signed(party: PartyConfig) -> None:
    last = verified(party)
    assert last is not None
    assert (last.n, last.kind) == (3, "charge")
    told = last.fields()
    assert {key: told[key] for key in ("population", "key", "epsilon", "delta")} == {
        "population": "patients",
        "key": "b",
        "epsilon": 0.25,
        "delta": 0.0,
    }


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET epsilon = 0.1 WHERE key = 'b'",
        "UPDATE charges SET key = 'c' WHERE key = 'b'",
        "DELETE FROM charges WHERE key = 'b'",
        "UPDATE trail SET body = replace(body, '0.25', '0.15')",
    ],
)
def test_accounts_that_differ_from_what_was_told(party: PartyConfig, statement: str) -> None:
    """Somebody writes to the database who also knows how to make checksums."""
    store = Store(party.state)
    store._base.execute("PRAGMA foreign_keys = OFF")
    store._base.execute(statement)
    names = ("entry", "population", "key", "epsilon", "delta", "what", "time")
    found = store._base.execute(f"SELECT {', '.join(names)} FROM charges").fetchall()
    with store.snapshot() as made:
        trail = made.trail()
    charges = [dict(zip(names, row, strict=True)) for row in found]
    refuses(Code.TRAIL_BROKEN, lambda: verify(trail, charges, party.identity.pem))


def test_a_new_key_of_the_party_goes_on_with_its_trail(party: PartyConfig) -> None:
    keys = party.folder / "keys"
    for name in ("party.key", "party.pem"):
        (keys / name).rename(keys / f"old-{name}")
    make_identity(keys, "north", stem="party")
    with open_store(party.state).transaction("note") as made:
        made.tell("note", {})
    last = verified(party)
    assert last is not None
    assert last.n == 5


def test_a_key_that_was_renewed_goes_on_with_the_trail(party: PartyConfig) -> None:
    with open_store(party.state).transaction("a") as made:
        made.tell("note", {"k": 1})
    before = party.identity.pem
    renew_keys(party)
    switch_keys(party, ask=False)
    # The new key has signed nothing yet, and the old one is known to be the party's.
    last = verified(party)
    assert last is not None
    with open_store(party.state).transaction("b") as made:
        made.tell("note", {"k": 2})
    now = verified(party)
    assert now is not None
    assert now.n > last.n
    with open_store(party.state).snapshot() as made:
        trail, charges = made.trail(), made.charges()
    refuses(Code.TRAIL_BROKEN, lambda: verify(trail, charges, before))


def test_a_party_without_a_key_has_a_trail_without_signatures(tmp_path: Path) -> None:
    store = Store(StateFolder(tmp_path / "state"))
    with store.transaction("note") as made:
        assert made.tell("note", {"a": 1}) == 1
        trail = made.trail()
    assert verify(trail, ()) == trail[0]
    assert trail[0].signature == b""


def test_the_command_line(party: PartyConfig, tmp_path: Path) -> None:
    def ran(*arguments: object) -> str:
        done = runner.invoke(app, ["trail", *map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.output

    last = verified(party)
    assert last is not None
    assert ran("verify", party.folder).strip() == (
        f"The trail of north verifies: 3 entries, the last of hash {last.hash.hex()}."
    )
    report = json.loads(ran("verify", party.folder, "--format", "json"))
    assert report == {"ok": True, "entries": 3, "hash": last.hash.hex()}
    shown = ran("show", party.folder)
    assert "charge" in shown
    (entry,) = json.loads(ran("show", party.folder, "--last", 1, "--format", "json"))["entries"]
    assert (entry["n"], entry["kind"], entry["hash"]) == (3, "charge", last.hash.hex())
    # With the certificate of somebody else in its place, the same trail is not this party's.
    party.identity.certificate.write_text(make_identity(tmp_path, "other").pem)
    done = runner.invoke(app, ["trail", "verify", str(party.folder)])
    assert done.exception is not None
    assert getattr(done.exception, "code", None) is Code.TRAIL_BROKEN
