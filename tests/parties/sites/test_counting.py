"""Sites whose counts stay secret, with three servers over mutual TLS, in one process."""

import json
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import check_consortium
from hedgerow.parties.consortium.sealing_keys import SignedKey
from hedgerow.parties.sites import counting as site_counting
from hedgerow.parties.sites.attempt import SiteAttempt
from hedgerow.parties.sites.counting import CountRun
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import OtherSites, SitePost
from hedgerow.parties.sites.service import CountService
from hedgerow.parties.store.accounts import Accounts
from hedgerow.privacy import Ledger
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.run import run_vertical
from tests.parties.sites.site_town import (
    SERVERS,
    SITES,
    SiteTown,
    Training,
    learned,
    make_job,
    reference,
    until,
)
from tests.parties.wire.parties_calls import refuses


def secret_job(**changes: Any) -> VerticalJob:
    return make_job(cardinality="secret", **changes)


def kept(town: SiteTown, job: VerticalJob) -> bool:
    return all(town.kept(job).values())


def seen(record: dict[str, Any]) -> dict[str, int]:
    return {row["name"]: row["learned"] for row in record["rows"] if row["learned"]}


def test_the_tree_and_what_was_learned_are_those_of_one_process(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    with town.serving(job), town.counting(job) as servers:
        tree = town.client("club", job).train()["attempt"]
        until(lambda: kept(town, job) and all(one.done.is_set() for one in servers.values()))
        (answer,) = town.client("office", job).ask(["9"])
        assert answer.counts == (0, 2)
    local = run_vertical(Session(job.protocol_job(), {}, secret=True), town.tables(job))
    assert town.tree(job).to_json() == reference(town, make_job())[2].to_json()
    assert town.nodes(job) == {n: s.nodes for n, s in zip(SITES, local.sites, strict=True)}
    for name, site in zip(SITES, local.sites, strict=True):
        own = {row["name"]: row["times"] for row in site.what_was_learned()}
        found = seen(learned(town, name, job)[tree])
        assert found == own
        # What the ring of the cipher shows beside these: gains, and sizes at every node.
        assert not any("gain" in key for key in found)
    for name in SERVERS:
        record = learned(town, name, job)[tree]
        assert (record["state"], record["counted"]) == ("grown", True)
        assert seen(record) == {row["name"]: row["times"] for row in local.learned}
        ledger = Ledger.from_json((town.folder(name, job) / "ledger.json").read_text())
        assert ledger.to_json() == local.ledger.to_json()
        meter = json.loads((town.folder(name, job) / "meter.json").read_text())
        sent = {row["step"]: row["payload"] for row in meter["traffic"]}
        sent.pop("next question")
        number = SERVERS.index(name)
        assert sent == {
            step: local.meter.at(step, number).payload for step in local.meter.steps if step in sent
        }


def test_noise_of_attempts_that_failed_is_charged_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So little noise that there is something to count below the root.
    town, job = SiteTown(tmp_path, servers=True), secret_job(epsilon=500.0, max_depth=2)
    for config in town.parties.values():
        policy = config.folder / "policy.toml"
        limit = "largest_epsilon_per_job = "
        policy.write_text(policy.read_text().replace(f"{limit}1.0", f"{limit}500.0"))
    answer, broken = site_counting.Counting._answer, []

    def breaking(self: site_counting.Counting, question: Any) -> None:
        if self._others.config.name == "cedar" and self.status().answered == 3 and not broken:
            broken.append(self.session)
            raise KeyError("a defect")
        answer(self, question)

    monkeypatch.setattr(site_counting.Counting, "_answer", breaking)
    with town.serving(job), town.counting(job) as servers:
        error = Training(town, job).end()
        assert error is not None
        assert error.code is Code.SERVICE_FAILED
        assert "defect" not in str(error)
        assert not kept(town, job)
        until(lambda: all(one.status().state == "failed" for one in servers.values()))
        tree = town.client("club", job).train()["attempt"]
        until(lambda: kept(town, job) and all(one.done.is_set() for one in servers.values()))
    for name, audience in (("club", "site 0"), ("office", "site 2"), ("birch", "server")):
        records = learned(town, name, job)
        assert all(record["counted"] for record in records.values())
        assert records.keys() == {tree, *broken}
        assert "failed" in records[broken[0]]["state"]
        ledger = Ledger.from_json((town.folder(name, job) / "ledger.json").read_text())
        # The public saw the second tree alone; whoever took part also saw counts of the first.
        once = ledger.formal_total("public").epsilon
        assert 450 < once <= 500
        assert ledger.formal_total(audience).epsilon == pytest.approx(2 * once, rel=1e-9)
        # They know whose records there are, or how many.
        assert ledger.total(audience).epsilon == math.inf
        config = town.parties[name]
        charged = Accounts(config.state, Policy.load(config.folder)).spent("days").charges
        assert [entry.epsilon for entry in charged] == [math.inf]


def other_run(keys: list[SignedKey], town: SiteTown, job: VerticalJob) -> list[SignedKey]:
    """Signed by the servers, for another attempt."""
    return [
        SignedKey.sign(SealingKey(), town.parties[name], job, b"x" * 16, private=True)
        for name in SERVERS
    ]


def own_key(keys: list[SignedKey], town: SiteTown, job: VerticalJob) -> list[SignedKey]:
    """A key of the site that begins, in place of one of them."""
    mine = SealingKey()
    return [keys[0], replace(keys[1], public=mine.public), keys[2]]


def twice(keys: list[SignedKey], town: SiteTown, job: VerticalJob) -> list[SignedKey]:
    return [keys[0], keys[1], keys[1]]


def seeded(keys: list[SignedKey], town: SiteTown, job: VerticalJob) -> list[SignedKey]:
    """It says itself that its noise is repeatable."""
    return [replace(keys[0], private=False), *keys[1:]]


@pytest.mark.parametrize("forge", [other_run, own_key, twice, seeded])
def test_keys_that_no_server_has_signed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Callable[..., list[SignedKey]]
) -> None:
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    honest = SiteAttempt._collect_keys
    # The site that begins is the one that cheats: it looks away itself.
    monkeypatch.setattr(SiteAttempt, "_collect_keys", lambda self: forge(honest(self), town, job))
    seat = SiteAttempt._take_seat

    def lenient(self: SiteAttempt, keys: list[SignedKey]) -> None:
        seat(self, honest(self) if self._others.config.name == "club" else keys)

    monkeypatch.setattr(SiteAttempt, "_take_seat", lenient)
    with town.serving(job), town.counting(job):
        error = Training(town, job).end()
    assert error is not None
    assert error.code is Code.SEALED_REFUSED
    assert not kept(town, job)
    # Nobody has sealed anything to them.
    for name in SITES:
        for record in learned(town, name, job).values():
            assert not record["counted"]


def test_a_question_to_some_of_the_servers_ends_the_attempt_and_names_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, job = SiteTown(tmp_path, servers=True), secret_job(timeouts={"lost": 1.0})
    honest = SitePost.send

    def send(self: SitePost, name: str, data: bytes) -> None:
        sender = self._others.config.name
        if not (sender == "observatory" and name == "cedar"):
            honest(self, name, data)

    monkeypatch.setattr(SitePost, "send", send)
    with town.serving(job), town.counting(job):
        error = Training(town, job).end()
    assert error is not None
    assert error.code is Code.BAD_SITE_MESSAGE
    assert "site observatory" in str(error)
    assert not kept(town, job)


def test_the_same_call_a_second_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    honest = SitePost.send

    def send(self: SitePost, name: str, data: bytes) -> None:
        honest(self, name, data)
        if self._others.config.name == "office" and name in SERVERS:
            honest(self, name, data)

    monkeypatch.setattr(SitePost, "send", send)
    with town.serving(job), town.counting(job):
        error = Training(town, job).end()
    assert error is not None
    assert error.code is Code.BAD_SITE_MESSAGE
    assert "office" in str(error)


def test_servers_take_up_questions_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each server gets the questions of several sites in another order, and answers in the same."""
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    slow, order = threading.Lock(), {name: [] for name in SERVERS}
    call = OtherSites.call

    def late(self: OtherSites, name: str, verb: str, *more: Any) -> Any:
        if (self.config.name, name, verb) == ("observatory", "cedar", "site-message"):
            slow.acquire(timeout=0.05)
        return call(self, name, verb, *more)

    answer = site_counting.Counting._answer

    def noted(self: site_counting.Counting, question: Any) -> None:
        order[self._others.config.name].append(question)
        answer(self, question)

    slow.acquire()
    monkeypatch.setattr(OtherSites, "call", late)
    monkeypatch.setattr(site_counting.Counting, "_answer", noted)
    with town.serving(job), town.counting(job) as servers:
        town.client("club", job).train()
        until(lambda: kept(town, job) and all(one.done.is_set() for one in servers.values()))
    assert order["alder"] == order["birch"] == order["cedar"]
    assert {question.sender for question in order["alder"]} == {0, 1, 2}


def test_what_a_server_refuses(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    config = town.parties["alder"]
    policy = Policy.load(config.folder)
    error = refuses(Code.JOB_WITHOUT_SERVERS, lambda: CountRun(config, policy, make_job()))
    assert "secret" in error.expected
    site = town.parties["club"]
    refuses(Code.WRONG_ROLE, lambda: CountRun(site, Policy.load(site.folder), job))
    strict = policy.model_copy(update={"allow_exact": False, "populations": {"days": 3.0}})
    refuses(Code.POLICY_REFUSES, lambda: CountRun(config, strict, job))
    error = refuses(Code.NOT_IN_JOB, lambda: job.index(config))
    assert "hedgerow site count" in error.fix
    tree = "ab" * 16
    run = CountRun(config, policy, job)
    with CountService(run):
        others = {name: OtherSites(town.parties[name], job) for name in SITES}
        refuses(Code.CALLER_NOT_ALLOWED, lambda: ask(others["office"], "site-key", tree))
        refuses(Code.WRONG_RUN_STATE, lambda: ask(others["club"], "site-alive", tree))
        key = SignedKey.from_dict(ask(others["club"], "site-key", tree)["key"])
        again = SignedKey.from_dict(ask(others["club"], "site-key", tree)["key"])
        assert key.public == again.public
        other = SignedKey.from_dict(ask(others["club"], "site-key", "cd" * 16)["key"])
        assert other.public != key.public
        keys = [key.to_dict()] * 3
        refuses(Code.WRONG_RUN_STATE, lambda: ask(others["club"], "site-begin", tree, keys=keys))
        for wrong in (None, [], [1, 2, 3], keys[:2], keys):
            refuses(
                Code.SEALED_REFUSED,
                lambda: ask(others["club"], "site-begin", "cd" * 16, keys=wrong),  # noqa: B023
            )
        refuses(Code.BAD_REQUEST, lambda: ask(others["club"], "site-key", "no tree"))
        # Whoever looks whether all is well finds it at its port for sites.
        for name in ("club", "birch"):
            found = {one.member.name: one for one in check_consortium(town.parties[name])}
            assert found["alder"].reached
            assert found["alder"].address == f"127.0.0.1:{config.me.site_port}"
            assert "hedgerow site count" in found["cedar"].problems[0].fix
        refuses(Code.UNKNOWN_VERB, lambda: ask(others["club"], "site-train", tree))


def ask(others: OtherSites, verb: str, tree: str, **fields: Any) -> dict[str, Any]:
    return others.call("alder", verb, {"tree": tree, **fields}).fields


def test_servers_without_ports_for_sites(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    config = town.parties["club"]
    bare = [
        member.model_copy(update={"site_port": 0, "count_port": 0}) for member in config.members
    ]
    changed = PartyConfig(consortium="tennis", name="club", members=tuple(bare))
    error = refuses(Code.PORT_MISSING, lambda: job.index(changed))
    assert "site_port" in error.expected
    alone = [member for member in config.members if member.role == "site"]
    changed = PartyConfig(consortium="tennis", name="club", members=tuple(alone))
    refuses(Code.ROLE_MISSING, lambda: job.index(changed))
    assert make_job().index(changed) == 0


def test_too_many_questions_have_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit now is sent again, and the tree is grown all the same."""
    town, job = SiteTown(tmp_path, servers=True), secret_job()
    arrived, refused = site_counting.Counting.receive, []

    def full(self: site_counting.Counting, *more: Any) -> None:
        with monkeypatch.context() as little:
            if len(refused) < 5:
                little.setattr(site_counting, "MOST_WAITING", 10)
            try:
                arrived(self, *more)
            except HedgerowError as error:
                refused.append(error.code)
                raise

    monkeypatch.setattr(site_counting.Counting, "receive", full)
    with town.serving(job), town.counting(job):
        town.client("club", job).train()
        until(lambda: kept(town, job))
    assert set(refused) == {Code.SERVICE_BUSY}
    assert len(refused) >= 5
