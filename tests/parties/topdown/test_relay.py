"""A coordinator's questions where there are servers: first their keys, then all together."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code
from hedgerow.parties.consortium.sealing_keys import SignedKey, checked_keys
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.journal import Entry
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.log import Record, RunLog, replay
from hedgerow.parties.topdown.owner import encoded_table
from hedgerow.parties.topdown.relay import (
    KeyLetter,
    OwnerLetter,
    Relay,
    ServerLetter,
    read_at_server,
    run_number,
)
from hedgerow.parties.topdown.rounds import Rounds
from hedgerow.parties.topdown.turns import digest
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.owner import SecureOwner
from hedgerow.protocols.topdown.wire import SERVER_NAMES, Ask, TopDownAnswer
from tests.parties.topdown.topdown_town import SERVERS, Town, make_job
from tests.parties.wire.parties_calls import refuses

RUN = bytes(range(16))
KEYS = tuple(SignedKey(bytes([i]) * 32, bytes([i]) * 64, True) for i in range(3))


def test_letters_come_back_as_they_were_written() -> None:
    ask = b'{"a":1}\nwith\nlines \x00'
    owner = OwnerLetter(RUN, KEYS, ask)
    assert OwnerLetter.from_bytes(owner.to_bytes()) == owner
    for letter in (KeyLetter(RUN), ServerLetter(RUN, ask)):
        assert read_at_server(letter.to_bytes()) == letter


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[1]\n",
        b"x" * (1 << 15),
        KeyLetter(RUN).to_bytes(),
        ServerLetter(RUN, b"x").to_bytes(),
        OwnerLetter(RUN, KEYS[:2], b"x").to_bytes(),
        OwnerLetter(RUN[1:], KEYS, b"x").to_bytes(),
        OwnerLetter(RUN, KEYS, b"x").to_bytes().replace(b'"keys":[', b'"keis":['),
    ],
)
def test_an_owner_reads_no_other(message: bytes) -> None:
    refuses(Code.BAD_ASK, lambda: OwnerLetter.from_bytes(message))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}\n",
        KeyLetter(RUN).to_bytes() + b"a question",
        KeyLetter(RUN[1:]).to_bytes(),
        ServerLetter(RUN[1:], b"x").to_bytes(),
        OwnerLetter(RUN, KEYS, b"x").to_bytes(),
    ],
)
def test_a_server_reads_no_other(message: bytes) -> None:
    refuses(Code.BAD_ASK, lambda: read_at_server(message))


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
    return Relay(town.parties["delta"], job, coordinator, bytes(range(16)))


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
    assert "birch" in refuses(Code.SERVER_MISSING, lambda: relay.drop("birch")).expected
    for name in SERVERS:
        bring_key(relay, town, job, name)
    assert set(relay.asks()) == set(OWNERS)


def test_what_was_heard_again_leads_to_the_same_question(town: Town, job: TopDownJob) -> None:
    relay = with_keys(town, job)
    heard = [(name, relay._keys[name].to_bytes()) for name in SERVERS]
    heard.append(("north", answer_of(town, job, "north", relay.asks()["north"])))
    relay.hear(*heard[-1])
    again = relay_of(town, job)
    for name, answer in heard:
        again.hear(name, answer)
    assert again.asks() == relay.asks()
    assert set(again.asks()) == {"south"}


def test_the_number_of_a_run_is_drawn_once(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    with RunLog(state, "wards-1") as log:
        number = run_number(log)
        assert len(number) == 16
        assert run_number(log) == number
    with RunLog(state, "wards-1") as log:
        assert run_number(log) == number
    for i, entry in enumerate(({"what": "told", "run": "0" * 32}, {"what": "begun", "run": "x"})):
        with RunLog(state, f"other-{i}") as log:
            log.append([entry])
            refuses(Code.JOURNAL_DAMAGED, lambda log=log: run_number(log))


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
    relay.ask_again()
    later = {read_at_server(ask).session for ask in relay.asks().values()}
    assert len(sessions) == len(later) == 1
    assert sessions != later


def test_servers_are_asked_when_all_of_them_are_there(town: Town, job: TopDownJob) -> None:
    now = [0.0]
    rounds = Rounds(
        job,
        asked_servers(town, job),
        Record(),
        keep=lambda entries, answer: None,
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


def numbers(relay: Relay, weight: int) -> bytes:
    """Make an answer of servers, as all three would give it."""
    ask = Ask.from_bytes(next(iter(relay.coordinator.asks().values())))
    m = len(ask.nodes)
    arrays = {name: np.zeros(m, dtype=np.int64) for name in ("choice", "worth")}
    arrays |= {"weight": np.full(m, weight), "used": np.zeros(len(OWNERS), dtype=np.int64)}
    return TopDownAnswer(ask.plan, ask.round, ask.nodes, arrays).to_bytes()


def test_attempts_of_servers_are_replayed_one_by_one(town: Town) -> None:
    plan = {"method": "secure-counts", "n_splits": 2, "max_depth": 2}
    job = make_job(owners=list(OWNERS), plan=plan, dropouts="wait")
    kept: list[tuple[Entry, bytes]] = []

    def keep(entries: list[Entry], answer: bytes) -> None:
        kept.extend((entry, answer if entry["what"] == "heard" else b"") for entry in entries)

    def opened() -> tuple[Relay, Rounds]:
        relay = relay_of(town, job)
        record = replay(kept, relay)
        return relay, Rounds(job, relay, record, keep=keep, finish=lambda: b"done")

    def attempt(rounds: Rounds) -> dict[str, str]:
        with ThreadPoolExecutor(len(SERVERS)) as pool:
            turns = pool.map(lambda name: rounds.next(name, 30.0), SERVERS)
            asks = {name: turn.payload for name, turn in zip(SERVERS, turns, strict=True)}
        assert all(asks.values())
        return {name: digest(ask) for name, ask in asks.items()}

    relay, rounds = opened()
    for name in SERVERS:
        letter = KeyLetter(bytes(range(16)))
        key = SignedKey.sign(SealingKey(), town.parties[name], job, letter.run, private=True)
        rounds.answer(name, digest(rounds.next(name, 0.0).payload), key.to_bytes())
    for name in OWNERS:
        ask = rounds.next(name, 0.0).payload
        rounds.answer(name, digest(ask), answer_of(town, job, name, ask))
    # One answers, and the attempt is over; then two answer, and the coordinator is killed.
    asks = attempt(rounds)
    rounds.answer("alder", asks["alder"], numbers(relay, 1))
    asks = attempt(rounds)
    rounds.answer("birch", asks["birch"], numbers(relay, 2))
    rounds.answer("cedar", asks["cedar"], numbers(relay, 2))
    relay, rounds = opened()
    assert rounds.status().waiting_for == SERVERS
    # Three that do not agree are all asked again.
    asks = attempt(rounds)
    rounds.answer("alder", asks["alder"], numbers(relay, 3))
    rounds.answer("birch", asks["birch"], numbers(relay, 3))
    refuses(Code.BAD_ANSWER, lambda: rounds.answer("cedar", asks["cedar"], numbers(relay, 4)))
    asks, last = attempt(rounds), numbers(relay, 5)
    for name in SERVERS:
        assert rounds.answer(name, asks[name], last)
    assert rounds.status().round == 2
    again, other = opened()
    assert other.status().round == 2
    assert again.asks() == relay.asks()
    assert other.record == rounds.record
    assert [entry["what"] for entry, _ in kept].count("again") == 5
