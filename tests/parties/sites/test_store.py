"""What lies on the disk of a site: its nodes, and the record of what was learned."""

import json
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.sites.store import (
    UNDER_WAY,
    LearnedRecord,
    NodeStore,
    StoredNodes,
    read_token,
)
from hedgerow.parties.sites.table import OwnColumns
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


def test_pending_until_it_is_kept(tmp_path: Path, own: OwnColumns) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    store = NodeStore(folder, JOB, "club", own)
    assert (store.kept, store.pending) == (None, None)
    refuses(Code.WRONG_RUN_STATE, lambda: store.keep(TREE))
    store.prepare(CLUB)
    # A process that is killed here finds it again, and it does not count.
    store = NodeStore(folder, JOB, "club", own)
    assert (store.kept, store.pending) == (None, CLUB)
    refuses(Code.WRONG_RUN_STATE, lambda: store.keep(OTHER))
    assert store.keep(TREE) == CLUB
    assert [path.name for path in folder.iterdir()] == ["nodes.json"]
    store = NodeStore(folder, JOB, "club", own)
    assert store.keep(TREE) == store.kept == CLUB
    refuses(Code.WRONG_RUN_STATE, lambda: store.keep(OTHER))


def test_discarded(tmp_path: Path, own: OwnColumns) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    store = NodeStore(folder, JOB, "club", own)
    store.prepare(CLUB)
    store.discard()
    store.discard()
    assert list(folder.iterdir()) == []


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


def test_an_attempt_has_a_record_before_anything_arrives(tmp_path: Path) -> None:
    found = leakage()
    record = LearnedRecord(tmp_path, "ab" * 16, begun=5.0)
    record.write([found])
    (read,) = LearnedRecord.all_of(tmp_path)
    assert (read.state, read.begun) == (UNDER_WAY, 5.0)
    assert [row["learned"] for row in read.rows] == [0, 0]
    found.check("sizes", "site 1", (2, 3))
    record.write([found], "failed: H842")
    (read,) = LearnedRecord.all_of(tmp_path)
    assert read.state == "failed: H842"
    assert read.rows[1] == {
        "name": "sizes",
        "declared": 4,
        "learned": 1,
        "values": 6,
        "why": "independent: a test",
    }
    assert (tmp_path / "learned").stat().st_mode & 0o777 == 0o700


def test_answers_add_up_over_restarts(tmp_path: Path) -> None:
    for _ in range(3):
        found, record = leakage(), LearnedRecord.of_answers(tmp_path)
        for _ in range(2):
            found.check("gain", "site 1", ())
            record.write_more(found)
    (read,) = LearnedRecord.all_of(tmp_path)
    assert (read.attempt, read.state) == ("answers", "answering")
    assert [row["learned"] for row in read.rows] == [6, 0]


@pytest.mark.parametrize("change", [{"version": 2}, {"schema": "other"}, {"more": 1}])
def test_records_of_another_schema_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    LearnedRecord(tmp_path, "ab" * 16).write([leakage()])
    (path,) = (tmp_path / "learned").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refuses(Code.BAD_LEDGER_FILE, lambda: LearnedRecord.all_of(tmp_path))
