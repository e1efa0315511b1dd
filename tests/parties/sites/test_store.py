"""What lies on the disk of a site: its nodes, and the record of what was learned."""

import json
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.sites.store import (
    UNDER_WAY,
    LearnedRecord,
    NodeStore,
    RunRoom,
    StoredNodes,
    read_token,
)
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.privacy import Leakage, Opening
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.site import Interior, Leaf
from tests.parties.sites.site_town import SITES, SiteTown, make_job
from tests.parties.wire.parties_calls import refuses

TREE, OTHER = "ab" * 16, "cd" * 16
JOB = make_job()
CLUB = StoredNodes(
    TREE,
    Token(0, 1),
    {
        1: Interior(0, (Token(1, 2), Token(0, 5), Token(0, 6))),
        5: Leaf((0, 4), False),
        6: Leaf((0, 4), True),
    },
)


@pytest.fixture
def own(tmp_path: Path) -> OwnColumns:
    return OwnColumns.load(SiteTown(tmp_path).domain("club"), JOB, 0)


def test_written_and_read(own: OwnColumns) -> None:
    text = CLUB.to_json(JOB, "club", own)
    assert StoredNodes.from_json(text, JOB, "club", own) == CLUB
    assert json.loads(text)["nodes"]["1"] == {
        "attribute": "outlook",
        "children": {"sunny": "S2L2", "overcast": "S1L5", "rainy": "S1L6"},
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(more=1), "other keys"),
        (lambda d: d.update(job="0" * 64), "nodes of club"),
        (lambda d: d.update(site="office"), "nodes of office"),
        (lambda d: d.update(root="S4L1"), "place of a token"),
        (lambda d: d.update(root="S1L9"), "S1L9 of no node"),
        (lambda d: d["nodes"]["1"].update(attribute="wind"), "wind"),
        (lambda d: d["nodes"]["1"]["children"].pop("sunny"), "other values"),
        (lambda d: d["nodes"]["1"]["children"].update(rainy="S1L4"), "S1L4 of no node"),
        (lambda d: d["nodes"]["1"]["children"].update(rainy="S1"), "place of a token"),
        (lambda d: d["nodes"]["5"].update(counts=[4]), "count for each class"),
        (lambda d: d["nodes"]["5"].update(counts=[4, -1]), "count for each class"),
        (lambda d: d["nodes"]["5"].update(empty=0), "count for each class"),
        (lambda d: d["nodes"]["5"].update(more=0), "neither"),
        (lambda d: d.update(nodes=[]), "by their numbers"),
    ],
)
def test_what_is_refused(own: OwnColumns, change, words: str) -> None:
    data = json.loads(CLUB.to_json(JOB, "club", own))
    change(data)
    with pytest.raises(Exception, match=words) as caught:
        StoredNodes.from_json(json.dumps(data), JOB, "club", own)
    assert caught.value.code in (Code.BAD_MODEL_FILE, Code.MISSING_COLUMN)


def test_another_domain(own: OwnColumns) -> None:
    data = json.loads(CLUB.to_json(JOB, "club", own))
    data["columns"]["attributes"]["attributes"][0].update(name="sky")
    text = json.dumps(data)
    error = refuses(Code.BAD_SITES, lambda: StoredNodes.from_json(text, JOB, "club", own))
    assert "serve it with that domain" in error.fix


def test_another_version(own: OwnColumns) -> None:
    data = json.loads(CLUB.to_json(JOB, "club", own)) | {"version": 2}
    text = json.dumps(data)
    refuses(Code.MODEL_VERSION, lambda: StoredNodes.from_json(text, JOB, "club", own))


@pytest.fixture
def room(tmp_path: Path) -> RunRoom:
    state = StateFolder(tmp_path / "state")
    return RunRoom(open_store(state), "tennis-1", state.folder("ppid3", "tennis-1"))


def test_pending_until_it_is_kept(room: RunRoom, own: OwnColumns) -> None:
    store = NodeStore(room, JOB, "club", own)
    assert (store.kept, store.pending) == (None, None)
    refuses(Code.WRONG_RUN_STATE, lambda: store.keep(TREE))
    store.prepare(CLUB)
    # A process that is killed here finds it again, and it does not count.
    store = NodeStore(room, JOB, "club", own)
    assert (store.kept, store.pending) == (None, CLUB)
    refuses(Code.WRONG_RUN_STATE, lambda: store.keep(OTHER))
    assert store.keep(TREE) == CLUB
    with room.store.snapshot() as made:
        assert made.site_nodes(room.run, "pending") is None
        (told,) = [entry.fields() for entry in made.trail()]
    assert told == {"run": "tennis-1", "tree": TREE}
    store = NodeStore(room, JOB, "club", own)
    assert store.keep(TREE) == store.kept == CLUB
    refuses(Code.WRONG_RUN_STATE, lambda: store.keep(OTHER))


def test_discarded(room: RunRoom, own: OwnColumns) -> None:
    store = NodeStore(room, JOB, "club", own)
    store.prepare(CLUB)
    store.discard()
    store.discard()
    again = NodeStore(room, JOB, "club", own)
    assert (again.kept, again.pending) == (None, None)


@pytest.mark.parametrize("kept", [True, False])
def test_runs_of_an_earlier_version_are_taken_over(tmp_path: Path, kept: bool) -> None:
    town = SiteTown(tmp_path)
    own = OwnColumns.load(town.domain("club"), JOB, 0)
    folder = town.parties["club"].state.folder("ppid3", JOB.run_id)
    name = "nodes.json" if kept else "pending.json"
    (folder / name).write_text(CLUB.to_json(JOB, "club", own))
    (folder / "learned").mkdir(mode=0o700)
    record = {"schema": "hedgerow.site-learned", "version": 1, "attempt": TREE, "begun": 5.0}
    record |= {"state": "grown", "rows": [], "counted": True}
    (folder / "learned" / f"{TREE}.json").write_text(json.dumps(record))
    for _ in range(2):
        room = RunRoom.of(town.parties["club"], JOB)
        store = NodeStore(room, JOB, "club", own)
        assert (store.kept or store.pending) == CLUB
        assert (store.kept is not None) == kept
        (read,) = LearnedRecord.all_of(room)
        assert (read.attempt, read.begun, read.state) == (TREE, 5.0, "grown")
        assert LearnedRecord.earlier(room) == 1
        assert {path.name for path in folder.iterdir()} == {f"imported-{name}", "imported-learned"}


def test_tokens() -> None:
    assert read_token("S3L12", JOB) == Token(2, 12)
    for text in ("S0L1", "S4L1", "S1L0", "S1", "s1l1", 3, None):
        with pytest.raises(ValueError, match="place of a token"):
            read_token(text, JOB)
    assert len(SITES) == 3


def leakage() -> Leakage:
    return Leakage(
        [
            Opening("gain", "site 1", (), independent="a test", times=9),
            Opening("sizes", "site 1", (2, 3), independent="a test", times=4),
        ]
    )


def test_an_attempt_has_a_record_before_anything_arrives(room: RunRoom) -> None:
    found = leakage()
    record = LearnedRecord(room, "ab" * 16, begun=5.0)
    record.write([found])
    (read,) = LearnedRecord.all_of(room)
    assert (read.state, read.begun) == (UNDER_WAY, 5.0)
    assert [row["learned"] for row in read.rows] == [0, 0]
    found.check("sizes", "site 1", (2, 3))
    record.write([found], "failed: H842")
    (read,) = LearnedRecord.all_of(room)
    assert read.state == "failed: H842"
    assert read.rows[1] == {
        "name": "sizes",
        "declared": 4,
        "learned": 1,
        "values": 6,
        "why": "independent: a test",
    }


def test_answers_add_up_over_restarts(room: RunRoom) -> None:
    for _ in range(3):
        found, record = leakage(), LearnedRecord.of_answers(room)
        for _ in range(2):
            found.check("gain", "site 1", ())
            record.write_more(found)
    (read,) = LearnedRecord.all_of(room)
    assert (read.attempt, read.state) == ("answers", "answering")
    assert [row["learned"] for row in read.rows] == [6, 0]


@pytest.mark.parametrize("change", [{"version": 2}, {"schema": "other"}, {"more": 1}])
def test_records_of_another_schema_are_refused(room: RunRoom, change: dict[str, object]) -> None:
    LearnedRecord(room, "ab" * 16).write([leakage()])
    with room.store.transaction("change") as made:
        ((attempt, text),) = made.learned(room.run).items()
        made.put_learned(room.run, attempt, json.dumps(json.loads(text) | change))
    refuses(Code.BAD_LEDGER_FILE, lambda: LearnedRecord.all_of(room))
