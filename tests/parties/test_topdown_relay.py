"""A coordinator's questions where there are servers: first their keys, then all together."""

import threading
from pathlib import Path

import pytest
from parties_calls import refuses
from topdown_town import SERVERS, Town, make_job

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code
from hedgerow.parties.sealing_keys import SignedKey, checked_keys
from hedgerow.parties.topdown_job import TopDownJob
from hedgerow.parties.topdown_letters import KeyLetter, OwnerLetter, ServerLetter, read_at_server
from hedgerow.parties.topdown_record import Record
from hedgerow.parties.topdown_relay import Relay
from hedgerow.parties.topdown_rounds import Rounds
from hedgerow.parties.topdown_table import encoded_table
from hedgerow.parties.topdown_turns import digest
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown import Coordinator
from hedgerow.protocols.topdown_parts import SERVER_NAMES
from hedgerow.protocols.topdown_secure_owner import SecureOwner

OWNERS = ("north", "south")


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, OWNERS, servers=SERVERS, rows=50)


@pytest.fixture
def job() -> TopDownJob:
    plan = {"method": "secure-counts", "n_splits": 2, "max_depth": 2}
    return make_job(owners=list(OWNERS), plan=plan, timeouts={"join": 100.0, "answer": 10.0})


def relay_of(town: Town, job: TopDownJob) -> Relay:
    coordinator = Coordinator(job.make_plan(), job.owners)
    return Relay.begin(town.parties["delta"], job, coordinator)


def bring_key(relay: Relay, town: Town, job: TopDownJob, name: str) -> None:
    letter = read_at_server(relay.asks()[name])
    assert isinstance(letter, KeyLetter)
    key = SignedKey.sign(SealingKey(), town.parties[name], job, letter.run, private=True)
    relay.hear(name, key.to_bytes())


def with_keys(town: Town, job: TopDownJob) -> Relay:
    relay = relay_of(town, job)
    for name in SERVERS:
        bring_key(relay, town, job, name)
    return relay


def answer_of(town: Town, job: TopDownJob, name: str, ask: bytes) -> bytes:
    letter = OwnerLetter.from_bytes(ask)
    keys = checked_keys(letter.keys, town.parties[name], job, letter.run, private=True)
    owner = SecureOwner(
        encoded_table(town.table(name), job.domain),
        job.make_plan(),
        name=name,
        source=NoiseSource.system(),
        server_keys=keys,
    )
    return owner.answer(letter.ask)


def test_keys_come_first(town: Town, job: TopDownJob) -> None:
    relay = relay_of(town, job)
    assert set(relay.asks()) == set(SERVERS)
    assert relay.together() == ()
    refuses(Code.UNEXPECTED_ANSWER, lambda: relay.hear("north", b"x"))
    refuses(Code.SEALED_REFUSED, lambda: relay.hear("alder", b"x"))
    letter = read_at_server(relay.asks()["alder"])
    assert isinstance(letter, KeyLetter)
    other = SignedKey.sign(SealingKey(), town.parties["birch"], job, letter.run, private=True)
    refuses(Code.SEALED_REFUSED, lambda: relay.hear("alder", other.to_bytes()))
    assert set(relay.asks()) == set(SERVERS)
    assert "birch" in refuses(Code.SERVER_MISSING, lambda: relay.lost("birch")).expected
    for name in SERVERS:
        bring_key(relay, town, job, name)
    assert set(relay.asks()) == set(OWNERS)


def test_what_is_kept_is_gone_on_from(town: Town, job: TopDownJob) -> None:
    relay = relay_of(town, job)
    bring_key(relay, town, job, "birch")
    again = Relay.resume(town.parties["delta"], job, relay.state())
    assert again.asks() == relay.asks()
    assert set(again.asks()) == {"alder", "cedar"}
    relay = with_keys(town, job)
    relay.hear("north", answer_of(town, job, "north", relay.asks()["north"]))
    again = Relay.resume(town.parties["delta"], job, relay.state())
    assert again.asks() == relay.asks()
    assert set(again.asks()) == {"south"}
    for bad in (b"", b"{}\n", relay.state().replace(b'"run":"', b'"run":"x')):
        refuses(Code.JOURNAL_DAMAGED, lambda b=bad: Relay.resume(town.parties["delta"], job, b))


def asked_servers(town: Town, job: TopDownJob) -> Relay:
    relay = with_keys(town, job)
    for name, ask in relay.asks().items():
        relay.hear(name, answer_of(town, job, name, ask))
    return relay


def test_every_attempt_has_a_session_of_its_own(town: Town, job: TopDownJob) -> None:
    relay = asked_servers(town, job)
    assert set(relay.asks()) == set(SERVERS)
    assert relay.together() == SERVERS
    letters = [read_at_server(ask) for ask in relay.asks().values()]
    assert all(isinstance(letter, ServerLetter) for letter in letters)
    asks = relay.coordinator.asks()
    assert [letter.ask for letter in letters] == [asks[name] for name in SERVER_NAMES]
    sessions = {letter.session for letter in letters}
    relay.again()
    later = {read_at_server(ask).session for ask in relay.asks().values()}
    assert len(sessions) == len(later) == 1
    assert sessions != later


def test_servers_are_asked_when_all_of_them_are_there(town: Town, job: TopDownJob) -> None:
    now = [0.0]
    rounds = Rounds(
        job,
        asked_servers(town, job),
        Record(),
        keep=lambda state, record: None,
        finish=lambda: b"done",
        clock=lambda: now[0],
    )
    turns: dict[str, object] = {}

    def ask(name: str) -> threading.Thread:
        def run() -> None:
            try:
                turns[name] = rounds.next(name, 30.0)
            except Exception as error:
                turns[name] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while rounds._gathering.group and not rounds._gathering.waits(name) and name not in turns:
            thread.join(0.01)
        return thread

    assert rounds.next("alder", 0.0).state == "wait"
    threads = [ask("alder"), ask("birch")]
    assert rounds.status().waiting_for == ("cedar",)
    threads.append(ask("cedar"))
    for thread in threads:
        thread.join(30)
    assert {turn.state for turn in turns.values()} == {"ask"}
    first = {name: digest(turn.payload) for name, turn in turns.items()}
    # One of them comes back without an answer, then another one: all are asked again.
    turns.clear()
    threads = [ask("birch"), ask("alder")]
    assert rounds.status().waiting_for == ("cedar",)
    assert not rounds.answer("cedar", first["birch"], b"of an attempt that is over")
    threads.append(ask("cedar"))
    for thread in threads:
        thread.join(30)
    assert {turn.state for turn in turns.values()} == {"ask"}
    assert not {digest(turn.payload) for turn in turns.values()} & set(first.values())
    # The third time one does not come back: it is late, and the others are not.
    turns.clear()
    threads = [ask("alder"), ask("birch")]
    now[0] = 9.9
    rounds.tick()
    assert rounds.error is None
    now[0] = 10.1
    rounds.tick()
    for thread in threads:
        thread.join(30)
    assert rounds.error is not None
    assert rounds.error.code is Code.SERVER_MISSING
    assert "cedar" in rounds.error.found
    assert turns["alder"] is rounds.error
