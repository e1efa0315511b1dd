"""Faults of sites and servers that must not leave a wrong record, a hang or half a tree."""

import math
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.sites.attempt import SiteAttempt
from hedgerow.parties.sites.counting import Counting, CountRun
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import OtherSites, SitePost
from hedgerow.parties.sites.run import SiteRun
from hedgerow.parties.sites.store import ANY_NUMBER, LearnedRecord, RunRoom
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.privacy import Leakage, Ledger, Opening
from hedgerow.protocols.vertical_id3.messages import AnswersKept, to_bytes
from tests.parties.sites.site_town import (
    SERVERS,
    SITES,
    SiteTown,
    Training,
    learned,
    make_job,
    until,
)
from tests.parties.wire.parties_calls import refuses

EPSILON = 500.0
"""So little noise that there is something to count below the root."""


@pytest.fixture
def town(tmp_path: Path) -> SiteTown:
    made = SiteTown(tmp_path, servers=True)
    for config in made.parties.values():
        policy, limit = config.folder / "policy.toml", "largest_epsilon_per_job = "
        policy.write_text(policy.read_text().replace(f"{limit}1.0", f"{limit}{EPSILON}"))
    return made


@pytest.fixture
def job() -> VerticalJob:
    return make_job(cardinality="secret", epsilon=EPSILON, max_depth=2, timeouts={"lost": 1.0})


def kept(town: SiteTown, job: VerticalJob) -> dict[str, bool]:
    return town.kept(job)


def formal(town: SiteTown, name: str, job: VerticalJob, audience: str) -> float:
    ledger = Ledger.from_json((town.folder(name, job) / "ledger.json").read_text())
    return ledger.formal_total(audience).epsilon


def break_once(monkeypatch: pytest.MonkeyPatch, *sessions: int) -> list[str]:
    """Let cedar fail at its third question in some of its attempts, counted from 0."""
    answer, seen, broken = Counting._answer, [], []

    def breaking(self: Counting, question: Any) -> None:
        if self._others.config.name == "cedar":
            if self.session not in seen:
                seen.append(self.session)
            if self.status().answered == 2 and seen.index(self.session) in sessions:
                broken.append(self.session)
                raise Code.SITE_LOST.error(found="broken on purpose")
        answer(self, question)

    monkeypatch.setattr(Counting, "_answer", breaking)
    return broken


def test_records_of_three_attempts_and_of_questions(
    town: SiteTown, job: VerticalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that counts and fails, one that ends before it counts, one that grows the tree."""
    broken = break_once(monkeypatch, 0)
    who = [("club", "site 0"), ("office", "site 2"), ("birch", "server")]
    with town.serving(job), town.counting(job) as servers:
        assert Training(town, job).end() is not None
        until(lambda: all(one.status().state == "failed" for one in servers.values()))
        once = [formal(town, name, job, audience) for name, audience in who]
        assert all(0.9 * EPSILON < epsilon <= EPSILON for epsilon in once)
        go = SiteAttempt.go
        monkeypatch.setattr(
            SiteAttempt, "go", lambda self: self.fail(Code.SITE_LOST.error(found="x"))
        )
        assert Training(town, job).end() is not None
        until(lambda: all(one.status().state == "failed" for one in servers.values()))
        monkeypatch.setattr(SiteAttempt, "go", go)
        # What the first one has charged stands there still.
        assert [formal(town, name, job, audience) for name, audience in who] == once
        # A request of the first that was stuck comes late: it begins nothing, and ends nothing.
        others = OtherSites(town.parties["club"], job)
        for name, verb in (
            ("office", "site-begin"),
            ("birch", "site-begin"),
            ("birch", "site-key"),
        ):
            fields: dict[str, Any] = {"tree": broken[0]}
            if verb == "site-begin":
                one = {"public": "0" * 64, "signature": "0" * 128, "private": True}
                fields["keys"] = [one] * 3
            call = others.call
            refuses(Code.WRONG_RUN_STATE, lambda: call(name, verb, fields))  # noqa: B023
        assert learned(town, "office", job)[broken[0]]["counted"]
        town.client("club", job).train()
        until(lambda: all(kept(town, job).values()))
        until(lambda: all(one.done.is_set() for one in servers.values()))
        for name, audience in who:
            # Whoever keeps a ledger says the same of all who took part.
            for other in (audience, "site 1", "server"):
                assert formal(town, name, job, other) == pytest.approx(2 * once[0])
            assert formal(town, name, job, "public") == pytest.approx(once[0])
        for one in servers.values():
            assert one._attempt is not None
            assert one._attempt._servers.keys == {}
        # Which branch an instance takes is exact, however noisy the tree is.
        town.client("office", job).ask(["9"])
        assert formal(town, "office", job, "site 2") == math.inf
        assert formal(town, "office", job, "public") == pytest.approx(once[0])


def test_a_server_that_never_hears_of_a_question(
    town: SiteTown, job: VerticalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = SitePost.send

    def send(self: SitePost, name: str, data: bytes) -> None:
        if (self._others.config.name, name) != ("observatory", SERVERS[0]):
            honest(self, name, data)

    monkeypatch.setattr(SitePost, "send", send)
    with town.serving(job), town.counting(job):
        error = Training(town, job).end()
    assert error is not None
    assert error.code is Code.BAD_SITE_MESSAGE
    assert "site observatory" in error.found


def test_nobody_keeps_a_part_before_the_site_that_begins_has(
    town: SiteTown, job: VerticalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a server nor a site that asks too early makes a pending part count."""
    refused: list[Code] = []
    honest, full = SiteRun.store, [True]

    def store(self: SiteRun, tree: str, root: Any) -> None:
        if self.config.name == "office" and full:
            full.clear()
            until(lambda: town.nodes_text("observatory", job, "pending") is not None)
            for name in ("cedar", "office"):
                fields = {"tree": tree, "what": "ask", "line": "x", "first": 0}
                with pytest.raises(HedgerowError) as caught:
                    OtherSites(town.parties[name], job).call(
                        "observatory", "site-message", fields, b""
                    )
                refused.append(caught.value.code)
            raise Code.STATE_NOT_WRITTEN.error(found="a full disk")
        honest(self, tree, root)

    monkeypatch.setattr(SiteRun, "store", store)
    with town.serving(job), town.counting(job):
        error = Training(town, job).end()
        assert error is not None
        assert error.code is Code.STATE_NOT_WRITTEN
        assert refused == [Code.CALLER_NOT_ALLOWED, Code.NOT_GROWN]
        assert not any(kept(town, job).values())
        town.client("club", job).train()
        until(lambda: all(kept(town, job).values()))


def test_what_fails_after_the_decision_changes_nothing(
    town: SiteTown, job: VerticalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = SiteAttempt.decide

    def late(self: SiteAttempt) -> None:
        decide(self)
        self.fail(Code.SITE_LOST.error(found="cedar, just now"))

    monkeypatch.setattr(SiteAttempt, "decide", late)
    with town.serving(job), town.counting(job):
        town.client("club", job).train()
        until(lambda: all(kept(town, job).values()))
    assert {record["state"] for record in learned(town, "club", job).values()} == {"grown"}


@pytest.mark.parametrize("where", ["club", "cedar"])
def test_a_disk_that_takes_nothing_does_not_keep_an_attempt_from_ending(
    town: SiteTown, job: VerticalJob, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    broken = break_once(monkeypatch, 0)
    write, full = LearnedRecord.write, [where]

    def refusing(self: LearnedRecord, *args: Any, **options: Any) -> None:
        if broken and f"/{full[0]}/" in str(self.room.folder):
            raise Code.STATE_NOT_WRITTEN.error(found="a full disk")
        write(self, *args, **options)

    monkeypatch.setattr(LearnedRecord, "write", refusing)
    with town.serving(job), town.counting(job) as servers:
        assert Training(town, job).end() is not None
        until(lambda: all(one.status().state == "failed" for one in servers.values()))
        full[0] = "nobody"
        town.client("club", job).train()
        until(lambda: all(kept(town, job).values()))


def test_a_declaration_with_very_many_digits_can_be_written(tmp_path: Path) -> None:
    opening = Opening("token", "site 0", (), independent="nothing", times=10**5000)
    state = StateFolder(tmp_path / "state")
    room = RunRoom(open_store(state), "tennis-1", state.root)
    LearnedRecord(room, "ab" * 16).write([Leakage([opening])])
    ((row,),) = (one.rows for one in LearnedRecord.all_of(room))
    assert row["declared"] == ANY_NUMBER


def test_a_server_takes_questions_alone(
    town: SiteTown, job: VerticalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = SitePost.send

    def send(self: SitePost, name: str, data: bytes) -> None:
        office = self._others.config.name == "office" and name == "birch"
        honest(self, name, to_bytes(AnswersKept(3 << 48 | 9)) if office else data)

    monkeypatch.setattr(SitePost, "send", send)
    with town.serving(job), town.counting(job):
        error = Training(town, job).end()
    assert error is not None
    assert "AnswersKept to a server" in error.found


def test_too_few_records_in_common_end_the_attempt(town: SiteTown) -> None:
    job = make_job(cardinality="secret", least_records=15)
    with town.serving(job), town.counting(job) as servers:
        error = Training(town, job).end()
        assert error is not None
        assert error.code is Code.IDS_DO_NOT_ALIGN
        assert "15 records" in error.expected
        assert "14" in error.found
        until(lambda: all(one.status().state == "failed" for one in servers.values()))
    for name in SITES:
        (record,) = learned(town, name, job).values()
        assert not any("full inter" in row["name"] for row in record["rows"] if row["learned"])


def test_who_is_missing_is_named_also_where_servers_count(town: SiteTown) -> None:
    job = make_job(cardinality="secret", timeouts={"join": 4.0})
    with town.serving(job, "club", "observatory"), town.counting(job, "alder", "birch"):
        training = Training(town, job)
        until(lambda: training.said and training.said[-1]["waiting_for"] == ["cedar", "office"])
        error = training.end()
    assert error is not None
    assert error.code is Code.SITE_LOST
    verb = "count" if "cedar" in error.expected else "serve"
    assert f"hedgerow site {verb}" in error.fix


def test_a_server_that_is_not_needed_any_more_says_so(town: SiteTown, job: VerticalJob) -> None:
    with town.serving(job), town.counting(job) as servers:
        status = town.client("club", job).train()
        assert status["records"] == [14, 15]
        until(lambda: all(one.done.is_set() for one in servers.values()))
    config = town.parties["alder"]
    assert CountRun(config, Policy.load(config.folder), job).done.is_set()
    # A port that is taken is found out before anybody waits for this server.
    other = make_job(cardinality="secret", name="second")
    with listen("127.0.0.1", config.me.count_port):
        refuses(Code.CANNOT_LISTEN, lambda: CountRun(config, Policy.load(config.folder), other))
