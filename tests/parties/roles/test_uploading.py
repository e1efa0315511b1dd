"""Owners share tables with three servers over TLS; the parts restore to the table."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hedgerow.errors import Code
from hedgerow.net.simulator import Simulator
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key, read_state_key
from hedgerow.parties.roles.uploading import (
    check_public,
    encode_part,
    make_align_key,
    place_records,
    share_upload,
)
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.journal import locked_journal
from hedgerow.parties.store.uploads import list_uploads, open_upload
from hedgerow.privacy import Leakage, Opening
from hedgerow.protocols.sharing.join import TAG_PLANES
from hedgerow.protocols.sharing.table import TaggedTable
from hedgerow.protocols.sharing.uploaded import planes_of
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import bits_of_parts
from hedgerow.tables import Attribute, Domain, Target, encode
from hedgerow.tables.ids import key_check
from tests.parties.consortia import OWNERS
from tests.parties.roles.upload_servers import (
    DOMAIN,
    SERVERS,
    consortium,
    people,
    serving,
    write_csv,
)
from tests.parties.store.old_journals import write_journal
from tests.parties.wire.parties_calls import refuses

KEY, OTHER = b"k" * 32, b"o" * 32


def test_whole_records_need_all_columns(tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people())
    whole = encode_part(path, DOMAIN, None, None)
    np.testing.assert_array_equal(whole.bins, encode(people(), DOMAIN, "ill").bins)
    less = write_csv(tmp_path / "less.csv", people().drop(["sex"]))
    refuses(Code.MISSING_COLUMN, lambda: encode_part(less, DOMAIN, None, None))
    unlabelled = write_csv(tmp_path / "unlabelled.csv", people().drop(["ill"]))
    refuses(Code.MISSING_COLUMN, lambda: encode_part(unlabelled, DOMAIN, None, None))


def test_parts_have_the_columns_that_are_there(tmp_path) -> None:
    path = write_csv(tmp_path / "part.csv", people().select(["sex", "id", "age"]))
    part = encode_part(path, DOMAIN, None, "id")
    assert part.domain.names == ("age", "sex")
    assert part.target is None
    assert part.ids is not None
    both = write_csv(tmp_path / "both.csv", people().select(["ill", "id", "age"]))
    assert encode_part(both, DOMAIN, None, "id").target is not None
    none = write_csv(tmp_path / "none.csv", people().select(["ill", "id"]))
    refuses(Code.MISSING_COLUMN, lambda: encode_part(none, DOMAIN, None, "id"))
    refuses(Code.MISSING_COLUMN, lambda: encode_part(both, DOMAIN, None, "name"))
    refuses(Code.MISSING_COLUMN, lambda: encode_part(both, DOMAIN, "outcome", "id"))


def tags_of(ids, key: bytes = KEY) -> list[bytes]:
    """Return the tags of people with these ids, in order."""
    placed = place_records(encode(people(), DOMAIN, "ill", ids=ids), 100, key)
    assert isinstance(placed, TaggedTable)
    assert np.array_equal(np.lexsort(placed.tags.T[::-1]), np.arange(100))
    return [tag.tobytes() for tag in placed.tags[placed.present]]


def test_tags_follow_from_ids_and_the_key_alone() -> None:
    ids = np.arange(60)
    assert tags_of(ids) == tags_of(ids[::-1])
    assert set(tags_of(ids)).isdisjoint(tags_of(ids, OTHER))
    assert len(set(tags_of(ids)) & set(tags_of(ids + 20))) == 40
    # Without a key there are none, and every placement is new.
    one = encode(people(), DOMAIN, "ill", ids="id")
    drawn = [place_records(one, 100, None) for _ in range(2)]
    assert not any(isinstance(placed, TaggedTable) for placed in drawn)
    assert not np.array_equal(*(placed.present for placed in drawn))


def test_a_text_that_spells_a_number_is_that_id() -> None:
    numbers = tags_of(np.arange(60))
    assert tags_of([str(i) for i in range(60)]) == numbers
    assert len(set(tags_of([f"{i:02}" for i in range(60)])) & set(numbers)) == 50


def test_ids_are_of_the_kind_that_their_owner_says() -> None:
    one = encode(people(), DOMAIN, "ill", ids=[f"p{i}" for i in range(60)])
    place_records(one, 100, KEY, "text")
    refuses(Code.WRONG_TYPE, lambda: place_records(one, 100, KEY, "number"))
    place_records(encode(people(), DOMAIN, "ill", ids="id"), 100, KEY, "number")


def test_repeated_ids_are_refused() -> None:
    refuses(Code.DUPLICATE_ID, lambda: encode(people(), DOMAIN, "ill", ids=np.zeros(60, int)))


@pytest.mark.parametrize("slots", [None, 7])
def test_slots_are_public(slots) -> None:
    assert check_public(DOMAIN, slots, None, None) == (slots or 100)


def test_keys_of_owners(tmp_path) -> None:
    path = tmp_path / "align.key"
    make_align_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_state_key(path)) == 32
    refuses(Code.BAD_STATE_KEY, lambda: make_align_key(path))


@pytest.fixture(scope="module")
def parties(tmp_path_factory) -> dict[str, PartyConfig]:
    return consortium(tmp_path_factory.mktemp("wards"))


def parts(parties: dict[str, PartyConfig], upload: str):
    held = {
        i: open_upload(parties[name].state, operator_key(parties[name].folder), upload)
        for i, name in enumerate(SERVERS)
    }
    assert len({manifest.digest for manifest, _ in held.values()}) == 1
    return held[0][0], {server: dealt for server, (_, dealt) in held.items()}


def restored(parties: dict[str, PartyConfig], upload: str) -> np.ndarray:
    """Open what three servers hold together, under a declaration."""
    manifest, held = parts(parties, upload)
    opening = Opening("bits", "server", manifest.shape, independent="a test looks")
    engine = ReplicatedEngine(Simulator(3), Leakage([opening]), insecure_seed=b"uploads")
    bits = bits_of_parts(engine, held, manifest.shape)
    return engine.open(bits, "bits", "server")


def records(planes: np.ndarray) -> list[tuple[bool, ...]]:
    """Return the records in whatever slots."""
    return sorted(map(tuple, planes[:, planes[0]].T.tolist()))


def test_from_a_file_to_three_parts_and_back(parties, tmp_path) -> None:
    table = people()
    seen = []
    with serving(parties):
        receipt = share_upload(
            parties["north"],
            write_csv(tmp_path / "people.csv", table),
            DOMAIN,
            id="north-1",
            population="patients",
            progress=lambda *told: seen.append(told),
        )
    manifest = receipt.manifest
    assert (manifest.owner, manifest.rows, manifest.planes) == ("north", 100, 1 + 3 + 2 + 1 + 1)
    assert seen[-1][0] == "sending"
    assert seen[-1][1:] == (receipt.sent, receipt.sent)
    found = restored(parties, "north-1")
    wanted = planes_of(encode(table, DOMAIN, "ill"))
    assert found.shape == (8, 100)
    assert records(found) == records(wanted)
    # Empty slots are all zero, and records are not where they were in the file.
    assert not found[:, ~found[0]].any()
    assert not np.array_equal(found[:, : len(table)], wanted)
    for name in SERVERS:
        assert [m.id for m in list_uploads(parties[name].state)] == ["north-1"]
        folder = parties[name].folder / "state" / "uploads" / "north-1"
        stored = b"".join(path.read_bytes() for path in folder.iterdir())
        # Neither the count of records nor a hash of the file is anywhere.
        with open_store(parties["north"].state).snapshot() as made:
            entries = [json.loads(entry) for entry in made.upload_events()]
        assert [e["event"] for e in entries] == ["begun", "done"]
        assert entries[0]["hash"].encode() not in stored
        assert "60" not in json.dumps(entries[0]["slots"])


def test_the_record_of_an_earlier_version_is_taken_over(parties, tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people(seed=23))
    north = parties["north"]
    about = {"kind": "uploads", "owner": "north"}
    entry = {"event": "done", "time": 1.0, "id": "old", "population": "patients", "hash": "0" * 64}
    journal = north.state.path("uploads.jsonl")
    lines = write_journal(journal, about, {**entry, "event": "begun"}, entry)

    def again() -> None:
        share_upload(north, path, DOMAIN, id="old", population="patients")

    with locked_journal(journal, about):
        refuses(Code.JOURNAL_IN_USE, again)
    journal.write_bytes(b"".join(lines).replace(b'"old"', b'"new"'))
    refuses(Code.JOURNAL_DAMAGED, again)
    journal.write_bytes(b"".join(lines))
    for _ in range(2):
        refuses(Code.UPLOAD_ID_USED, again)
        assert not journal.exists()
        # As after a crash before it was renamed.
        north.state.path("imported-uploads.jsonl").rename(journal)
    refuses(Code.UPLOAD_ID_USED, again)
    with open_store(north.state).snapshot() as made:
        events = [json.loads(text) for text in made.upload_events()]
    assert [event["event"] for event in events if event["id"] == "old"] == ["begun", "done"]


def test_no_part_alone_depends_on_the_table(parties, tmp_path) -> None:
    """Servers 1 and 2 hold one uniform correction; server 0 holds seeds alone."""
    path = write_csv(tmp_path / "people.csv", people(100, seed=3))
    with serving(parties):
        for i in range(2):
            share_upload(
                parties["south"], path, DOMAIN, id=f"twice-{i}", population="patients", slots=6400
            )
    (_, one), (_, two) = parts(parties, "twice-0"), parts(parties, "twice-1")
    assert one[0].correction is None
    np.testing.assert_array_equal(one[1].correction, one[2].correction)
    assert one[1].seeds[1] == one[0].seeds[1]
    assert one[2].seeds[0] == one[0].seeds[0]
    assert one[0].seeds != two[0].seeds
    same = np.unpackbits((one[1].correction ^ two[1].correction).view(np.uint8)).mean()
    assert abs(same - 0.5) < 0.02
    alone = np.unpackbits(one[1].correction.view(np.uint8)).mean()
    assert abs(alone - 0.5) < 0.02


def test_owners_of_columns_share_tags(parties, tmp_path) -> None:
    table = people(seed=5)
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    north = write_csv(tmp_path / "north.csv", table.select(["id", "age", "sex"]))
    south = write_csv(tmp_path / "south.csv", shuffled.select(["ill", "ward", "id"]).slice(9))
    key = tmp_path / "align.key"
    make_align_key(key)
    with serving(parties):
        for name, path, slots in zip(OWNERS, (north, south), (90, 70), strict=True):
            share_upload(
                parties[name],
                path,
                DOMAIN,
                id=f"columns-{name}",
                population="patients",
                ids="id",
                align_key=key,
                slots=slots,
            )
    manifests = [parts(parties, f"columns-{name}")[0] for name in OWNERS]
    assert [m.domain.names for m in manifests] == [("age", "sex"), ("ward",)]
    assert [m.has_target for m in manifests] == [False, True]
    assert [(m.version, m.ids, m.rows) for m in manifests] == [(3, "text", 90), (3, "text", 70)]
    assert manifests[0].alignment == manifests[1].alignment == key_check(read_state_key(key))
    left, right = (restored(parties, f"columns-{name}") for name in OWNERS)
    tags = []
    for planes, records_ in ((left, 60), (right, 51)):
        packed = np.packbits(planes[-TAG_PLANES:].T, axis=1)
        assert np.array_equal(np.lexsort(packed.T[::-1]), np.arange(len(packed)))
        assert planes[0].sum() == records_
        tags.append({tag.tobytes() for tag in packed[planes[0]]})
    assert tags[1] < tags[0]


def test_the_check_of_a_key_says_nothing_about_ids(parties, tmp_path) -> None:
    key, other = tmp_path / "align.key", tmp_path / "other.key"
    make_align_key(key)
    make_align_key(other)
    whole = write_csv(tmp_path / "whole.csv", people(seed=7))
    fewer = write_csv(tmp_path / "fewer.csv", people(seed=7).slice(1))
    found = []
    with serving(parties):
        for i, (path, with_key, slots) in enumerate(
            ((whole, key, 90), (fewer, key, 91), (whole, other, 90))
        ):
            receipt = share_upload(
                parties["north"],
                path,
                DOMAIN,
                id=f"aligned-{i}",
                population="patients",
                ids="id",
                align_key=with_key,
                id_type="number",
                slots=slots,
            )
            found.append(receipt.manifest.alignment)
            assert receipt.manifest.ids == "number"
    assert found[0] == found[1] != found[2]


def test_a_target_of_another_name(parties, tmp_path) -> None:
    table = people(seed=9).rename_columns(["id", "age", "ward", "sex", "outcome"])
    path = write_csv(tmp_path / "people.csv", table)
    with serving(parties):
        share_upload(
            parties["north"], path, DOMAIN, id="named", population="patients", target="outcome"
        )
    wanted = planes_of(encode(table, DOMAIN, "outcome"))
    assert records(restored(parties, "named")) == records(wanted)


def test_what_is_refused_before_a_server_is_asked(parties, tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people())
    options = {"id": "early", "population": "patients"}

    def attempt(code: Code, domain: Domain = DOMAIN, party: str = "north", **changes) -> str:
        error = refuses(
            code, lambda: share_upload(parties[party], path, domain, **options | changes)
        )
        return error.found

    attempt(Code.WRONG_ROLE, party="zoe")
    attempt(Code.WRONG_ROLE, party="alder")
    attempt(Code.BAD_NAME, id="../../etc")
    attempt(Code.BAD_NAME, population="Patients")
    for option, value in (("ids", "id"), ("slots", 0)):
        asked = options | {option: value}
        error = refuses(
            Code.BAD_PARAMETER,
            lambda asked=asked: share_upload(parties["north"], path, DOMAIN, **asked),
        )
        assert f"--{option}" in error.expected
    attempt(Code.MISSING_CAPACITY, DOMAIN.model_copy(update={"capacity": None}))
    drafted = DOMAIN.model_copy(update={"provenance": "read from data"})
    attempt(Code.DOMAIN_READ_FROM_DATA, drafted)
    # With nothing wrong it gets as far as the servers, which do not run; a target is not needed.
    attempt(Code.SERVICE_UNREACHABLE)
    attempt(Code.SERVICE_UNREACHABLE, DOMAIN.select(["age"], target=False))
    numeric = DOMAIN.model_copy(update={"target": Target(name="ill", bounds=(0.0, 1.0))})
    # A target may be a number; that these are none is found without the servers.
    attempt(Code.UNREADABLE_FILE, numeric)


def test_what_is_refused_at_the_owner(parties, tmp_path) -> None:
    table = people(seed=11)
    path = write_csv(tmp_path / "people.csv", table)
    wrong = table.set_column(2, "ward", pa.array(["a"] * 59 + ["z"]))
    with serving(parties):

        def attempt(code: Code, path: Path, **changes) -> str:
            options = {"id": "local", "population": "patients"} | changes
            return refuses(
                code, lambda: share_upload(parties["north"], path, DOMAIN, **options)
            ).found

        found = attempt(Code.UNKNOWN_CATEGORY, write_csv(tmp_path / "wrong.csv", wrong))
        # For the owner's own eyes: which row, and what is in it.
        assert "59" in found
        assert "'z'" in found
        attempt(Code.CAPACITY_EXCEEDED, path, slots=59)
        attempt(Code.MISSING_COLUMN, write_csv(tmp_path / "less.csv", table.drop(["age"])))
        attempt(Code.UNREADABLE_FILE, tmp_path / "none.csv")
        assert "sick" in attempt(Code.POLICY_REFUSES, path, population="sick")
        share_upload(parties["north"], path, DOMAIN, id="local", population="patients")
        attempt(Code.UPLOAD_ID_USED, path)


def test_no_server_hears_of_a_table_that_is_refused(parties, tmp_path) -> None:
    """A server that is asked and then gets nothing would know that a row does not fit."""
    table = people(seed=12)
    wrong = table.set_column(2, "ward", pa.array(["a"] * 59 + ["z"]))
    path = write_csv(tmp_path / "wrong.csv", wrong)
    right = write_csv(tmp_path / "right.csv", table)
    # The servers do not run: whoever asks them is told so.
    for file, slots, code in (
        (path, 60, Code.UNKNOWN_CATEGORY),
        (right, 59, Code.CAPACITY_EXCEEDED),
        (right, 60, Code.SERVICE_UNREACHABLE),
    ):
        options = {"id": "unheard", "population": "patients", "slots": slots}
        refuses(code, lambda f=file, o=options: share_upload(parties["north"], f, DOMAIN, **o))


def test_one_file_has_one_population(parties, tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people(seed=13))
    for name in (*SERVERS, "south"):
        policy = parties[name].folder / "policy.toml"
        if "staff" not in policy.read_text():
            policy.write_text(policy.read_text() + "\nstaff = 1.0\n")
    with serving(parties):
        share_upload(parties["south"], path, DOMAIN, id="once", population="patients")
        error = refuses(
            Code.BAD_UPLOAD,
            lambda: share_upload(parties["south"], path, DOMAIN, id="again", population="staff"),
        )
        assert "patients" in error.expected
        # A new version of the same people is another upload of the same population.
        share_upload(parties["south"], path, DOMAIN, id="again", population="patients")


def test_an_upload_that_did_not_reach_all_servers(parties, tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people(seed=15))
    with serving(parties, names=("alder", "birch")):
        error = refuses(
            Code.SERVICE_UNREACHABLE,
            lambda: share_upload(parties["north"], path, DOMAIN, id="half", population="patients"),
        )
        assert "cedar" in error.expected
    # Nobody was sent anything.
    assert not any((parties[name].folder / "state/uploads/half").exists() for name in SERVERS)


def test_a_server_that_fails_in_the_middle(parties, tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people(seed=17))

    def occupy(stage: str, done: int, total: int) -> None:
        if stage == "sharing":
            (parties["cedar"].folder / "state/uploads/middle").mkdir(mode=0o700)

    def attempt(**options) -> None:
        share_upload(parties["north"], path, DOMAIN, id="middle", population="patients", **options)

    with serving(parties):
        error = refuses(Code.UPLOAD_ID_USED, lambda: attempt(progress=occupy))
        assert error.party == "cedar"
        assert "another id" in error.fix
        refuses(Code.UPLOAD_ID_USED, attempt)


def test_domains_with_many_categories_do_not_fit_a_header_and_need_not(parties, tmp_path) -> None:
    codes = tuple(f"diagnosis-{i:06}" for i in range(5000))
    domain = Domain(
        attributes=(Attribute(name="code", kind="categorical", categories=codes),),
        target=Target(name="ill", classes=("no", "yes")),
        capacity=10,
    )
    table = pa.table({"code": [codes[7], codes[4999]], "ill": ["no", "yes"]})
    path = write_csv(tmp_path / "codes.csv", table)
    with serving(parties):
        share_upload(parties["north"], path, domain, id="codes", population="patients")
    wanted = planes_of(encode(table, domain, "ill"))
    assert records(restored(parties, "codes")) == records(wanted)


def test_links_and_open_folders_are_refused(parties, tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people(seed=19))
    state, aside = parties["north"].folder / "state", tmp_path / "aside"
    state.rename(aside)
    state.symlink_to(aside)
    try:
        refuses(
            Code.UNSAFE_FOLDER,
            lambda: share_upload(parties["north"], path, DOMAIN, id="link", population="patients"),
        )
    finally:
        state.unlink()
        aside.rename(state)
