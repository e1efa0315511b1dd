"""Questions about instances: answers, refusals, and the way back of bad news."""

import functools
import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites import answering as site_way_back
from hedgerow.parties.sites.answering import (
    AnsweringProgram,
    AnsweringSite,
    WayBack,
    read_kept,
    readable_id,
    veil,
)
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.service import RefusedFields, SiteService
from hedgerow.parties.sites.store import StoredNodes
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.database import open_store
from hedgerow.parties.wire.handlers import Caller, Incoming
from hedgerow.protocols.vertical_id3.leakage import ANSWER, INSTANCES
from hedgerow.protocols.vertical_id3.messages import BringSet, to_bytes
from hedgerow.tables.ids import id_bytes
from tests.parties.sites.site_town import SITES, SiteTown, learned, make_job, part, reference
from tests.parties.wire.parties_calls import refuses


def grown(root: Path, **changes) -> tuple[SiteTown, VerticalJob]:
    """Store, at every site, the tree that one process grows: what training leaves behind."""
    town, job = SiteTown(root), make_job(**changes)
    local, token, _ = reference(town, job)
    for name, site in zip(SITES, local.sites, strict=True):
        own = OwnColumns.load(town.domain(name), job, site.index)
        stored = StoredNodes("ab" * 16, token, site.nodes)
        with open_store(town.parties[name].state).transaction("grow") as made:
            made.put_site_nodes(job.run_id, "kept", stored.to_json(job, name, own))
    return town, job


def test_token_by_token(tmp_path: Path) -> None:
    town, job = grown(tmp_path)
    seen = []
    with town.serving(job, tell=lambda what, fields: seen.append((what, fields))):
        days = [str(day) for day in range(1, 15)]
        local, root, _ = reference(town, job)
        own = [OwnColumns.load(town.domain(name), job, i) for i, name in enumerate(SITES)]
        ids, rows = np.arange(1, 15), []
        for one, name in zip(own, SITES, strict=True):
            names, bins = one.instances(town.table(name), "id")
            rows.append(bins[[names.tolist().index(i) for i in ids]])
        expected = local.classify(root, ids, rows)
        assert expected is not None
        for name in SITES:
            answers = town.client(name, job).ask(days)
            assert [answer.counts for answer in answers] == [tuple(r) for r in expected.tolist()]
        seen.clear()
        (answer,) = town.client("office", job).ask(["9"])
    # Day 9 is sunny and of normal humidity: from the root to the observatory, and back to a leaf.
    assert (answer.path, answer.counts) == (("S1L1",), (0, 2))
    assert seen == [
        ("token", {"from": "office", "instances": 1, "path": ["S1L1", "S2L2"]}),
        ("token", {"from": "club", "instances": 1, "path": ["S2L2", "S1L4"]}),
        ("token", {"from": "observatory", "instances": 1, "path": ["S1L4"]}),
    ]
    rows = {row["name"]: row for row in learned(town, "office", job)["answers"]["rows"]}
    assert set(rows) == {INSTANCES, ANSWER}
    # Its own two questions; no node of the tree is the office's.
    assert rows[INSTANCES]["learned"] == 0
    before = rows[ANSWER]["learned"]
    assert before > 1
    # A restart adds to it.
    with town.serving(job):
        town.client("office", job).ask(["9"])
    (row,) = [r for r in learned(town, "office", job)["answers"]["rows"] if r["name"] == ANSWER]
    assert row["learned"] == before + 1


def test_the_class_site_keeps_the_class(tmp_path: Path) -> None:
    town, job = grown(tmp_path, answers_to="class site")
    with town.serving(job):
        answers = town.client("observatory", job).ask(["1", "9"])
        assert [(answer.id, answer.counts) for answer in answers] == [(1, None), (9, None)]
        town.client("club", job).ask(["3"])
    kept = read_kept(town.folder("club", job))
    assert sorted(kept) == [(1, [3, 0]), (3, [0, 4]), (9, [0, 2])]
    assert read_kept(town.folder("office", job)) == []
    assert (town.folder("club", job) / "kept.jsonl").stat().st_mode & 0o777 == 0o600


def names_nobody(error: HedgerowError, asker: str) -> None:
    """Check that an asker is told of a fault, and not where on the path it was."""
    said = " ".join((error.expected, error.found, error.fix))
    assert "a fault on the path" in said
    for word in ({*SITES} - {asker}) | {"S1L", "S2L", "S3L"}:
        assert word not in said


def test_faults_on_the_path_reach_the_asker_without_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, real = [], SiteService.refused

    @functools.wraps(real)
    def listened(service: SiteService, caller: Caller, fields: RefusedFields, payload: Incoming):
        heard.append((service.run.config.name, caller.name))
        return real(service, caller, fields, payload)

    monkeypatch.setattr(SiteService, "refused", listened)
    town, job = grown(tmp_path, timeouts={"lost": 0.5})
    # The observatory points to a node that the club does not have.
    data = json.loads(town.nodes_text("observatory", job) or "")
    data["nodes"]["2"]["children"]["normal"] = "S1L77"
    with open_store(town.parties["observatory"].state).transaction("change") as made:
        made.put_site_nodes(job.run_id, "kept", json.dumps(data))
    rows = part("observatory")
    few = rows.filter(np.array(rows["id"]) != 1)
    pyarrow.csv.write_csv(few, town.table("observatory"))
    with town.serving(job, "office", "club"):
        with town.serving(job, "observatory"):
            for asker in ("office", "club"):
                client = town.client(asker, job)
                error = refuses(Code.UNKNOWN_NODE, lambda client=client: client.ask(["9"]))
                if asker == "office":
                    names_nobody(error, asker)
                else:
                    # The club is the site where it happened.
                    assert "S1L77" in error.found
                # Day 1 is one that the observatory does not know.
                error = refuses(Code.IDS_DO_NOT_ALIGN, lambda client=client: client.ask(["1"]))
                names_nobody(error, asker)
                # Others are answered as before.
                (answer,) = client.ask(["3"])
                assert answer.counts == (0, 4)
        # The office hears of it by the club alone, which it has asked: the root is there.
        assert {of for site, of in heard if site == "office"} == {"club"}
        # Where it happened it can be read.
        logged = [record.event for record in caplog.records if hasattr(record, "event")]
        found = [event["found"] for event in logged if event.get("what") == "question"]
        assert any("S1L77" in text for text in found)
        assert any("site observatory does not have" in text for text in found)
        error = refuses(Code.SITE_LOST, lambda: town.client("office", job).ask(["9"]))
        names_nobody(error, "office")
        # The club has sent it there itself.
        error = refuses(Code.SITE_LOST, lambda: town.client("club", job).ask(["9"]))
        assert "observatory is not reached" in error.found
        # It comes back, and so do answers.
        with town.serving(job, "observatory"):
            (answer,) = town.client("office", job).ask(["8"])
            assert answer.counts == (3, 0)


def test_no_answer_in_time(tmp_path: Path) -> None:
    town, job = grown(tmp_path, timeouts={"answer": 0.4, "lost": 5.0})
    with town.serving(job, "club"):
        error = refuses(Code.QUERY_NOT_ANSWERED, lambda: town.client("club", job).ask(["9"]))
        assert "sent to observatory" in error.found
        refuses(Code.IDS_DO_NOT_ALIGN, lambda: town.client("club", job).ask(["77"]))
        refuses(Code.WRONG_TYPE, lambda: town.client("club", job).ask(["day nine"]))


def test_before_there_is_a_tree(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job()
    with town.serving(job, "club"):
        refuses(Code.NOT_GROWN, lambda: town.client("club", job).ask(["9"]))


def test_instances_of_their_own(tmp_path: Path) -> None:
    town, job = grown(tmp_path)
    lines = {
        "club": "id,outlook\nmonday,rainy\n",
        "observatory": "id,humidity,wind\nmonday,high,weak\n",
    }
    paths = {}
    for name, text in lines.items():
        paths[name] = tmp_path / f"{name}-new.csv"
        paths[name].write_text(text)
    with (
        town.serving(job, "club", instances=paths["club"]),
        town.serving(job, "observatory", instances=paths["observatory"]),
    ):
        (answer,) = town.client("club", job).ask(["monday"])
    assert (answer.id, answer.counts) == ("monday", (0, 3))


def test_a_site_that_answers_takes_part_in_nothing_else(tmp_path: Path) -> None:
    town, job = grown(tmp_path)
    own = OwnColumns.load(town.domain("club"), job, 0)
    site = AnsweringSite(0, job.protocol_job(), own.no_rows())
    program = AnsweringProgram(site, job.sites, lambda *_: None, WayBack())
    stored = town.stored("club", job)
    site.take_up(stored.nodes, stored.root)
    asked = to_bytes(BringSet(1 << 50, 1, 1, (0, 1)))
    refuses(Code.BAD_SITE_MESSAGE, lambda: program.receive(1, asked))
    assert len({site.new_call() for _ in range(100)}) == 100


@pytest.mark.parametrize("ids", [np.array([0, -5, 2**40]), np.array(["a", "ü"])])
def test_ids_are_read_again(ids) -> None:
    assert [readable_id(name) for name in id_bytes(ids)] == ids.tolist()


def test_the_first_time_counts_and_once_is_enough() -> None:
    way = WayBack()
    way.note_sender(7, 2)
    # Further down its path the question comes by again.
    way.note_sender(7, 1)
    assert way.take(7) == 2
    assert way.take(7) is None
    way.note_sender(7, 1)
    assert way.take(7) is None
    assert way.take(8) is None


def test_news_that_is_sent_in_a_circle_ends() -> None:
    ways = [WayBack(), WayBack()]
    ways[0].note_sender(1, 1)
    ways[1].note_sender(1, 0)
    at, steps = 0, 0
    while (after := ways[at].take(1)) is not None:
        at, steps = after, steps + 1
    assert steps == 2


def test_old_questions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_way_back, "MOST_CALLS", 3)
    way = WayBack()
    for call in range(5):
        way.note_sender(call, call + 10)
    assert [way.take(call) for call in range(5)] == [None, None, 12, 13, 14]


def test_only_the_kind_of_a_fault_is_told() -> None:
    one = veil(Code.UNKNOWN_NODE.error(found="the token S2L4"))
    other = veil(Code.UNKNOWN_NODE.error(found="the token S1L9", fix="look at the club"))
    assert one.code is Code.UNKNOWN_NODE
    assert str(one) == str(other)
    assert one.party is None
