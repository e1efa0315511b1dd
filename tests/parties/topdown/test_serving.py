"""Three servers of a run as threads over mutual TLS: they fall over, come back, or never come."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.sealing_keys import SignedKey
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.topdown.carrying import Carrier
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import Joining
from hedgerow.parties.topdown.relay import KeyLetter
from hedgerow.parties.topdown.serving import Serving
from hedgerow.parties.topdown.turns import digest
from hedgerow.privacy import Ledger
from hedgerow.trees import Tree, read_model
from tests.parties.topdown.topdown_town import SERVER_SEED, SERVERS, Town, make_job, same_tree
from tests.parties.wire.parties_calls import refuses

OWNERS = ("north", "south")
RUN = bytes(range(16))


class Killed(BaseException):
    """What a kill -9 looks like from inside a thread."""


@pytest.fixture
def town(tmp_path: Path) -> Town:
    made = Town(tmp_path, OWNERS, servers=SERVERS)
    made.allow_seeds()
    return made


def changed(town: Town, name: str, before: str, after: str) -> None:
    """Change the party.toml of a party."""
    path = town.parties[name].folder / "party.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    town.parties[name] = PartyConfig.load(path.parent)


def secure_job(**changes: Any) -> TopDownJob:
    plan = {"method": "secure-counts", "criterion": "max", "n_splits": 2, "max_depth": 2}
    return make_job(owners=list(OWNERS), plan=plan, **changes)


def serving(town: Town, job: TopDownJob, name: str, seed: int | None = SERVER_SEED) -> Serving:
    return Serving(town.parties[name], town.policy(name), job, insecure_seed=seed)


def joining(town: Town, job: TopDownJob, name: str, seed: int | None = 1) -> Joining:
    return Joining(town.parties[name], town.policy(name), job, town.table(name), insecure_seed=seed)


class Run:
    """A coordinator and participants in threads; what they end with are futures."""

    def __init__(self, town: Town, job: TopDownJob, pool: ThreadPoolExecutor) -> None:
        self.town, self.job, self._pool = town, job, pool
        self.now = 0.0
        self.carrier = Carrier(town.parties["delta"], job, poll=2.0, clock=lambda: self.now)

    def carry(self) -> Future[dict[str, Any]]:
        return self._pool.submit(self.carrier.carry)

    def take_part(self, *names: str) -> dict[str, Future[Path]]:
        return {name: self._pool.submit(self._part, name) for name in names}

    def _part(self, name: str) -> Path:
        make = serving if name in SERVERS else joining
        with make(self.town, self.job, name) as party:
            return party.take_part()

    def dies_at(self, name: str, keep: int, *, written: bool) -> Future[None]:
        """Be a server that is killed when it keeps something for the nth time, or just after."""

        def die() -> None:
            with serving(self.town, self.job, name) as party:
                real, count = party.memory.keep, [0]

                def counted(data: bytes) -> None:
                    count[0] += 1
                    if count[0] < keep or written:
                        real(data)
                    if count[0] == keep:
                        raise Killed

                party.memory.keep = counted
                try:
                    party.take_part()
                finally:
                    if party._network is not None:
                        party._network._hang_up()

        return self._pool.submit(die)


@contextmanager
def run_of(town: Town, job: TopDownJob) -> Iterator[Run]:
    with ThreadPoolExecutor(8) as pool:
        run = Run(town, job, pool)
        with run.carrier:
            try:
                yield run
            finally:
                # Whoever still asks is told that this is the end.
                run.carrier.rounds.stop(Code.PEER_STOPPED.error(found="the end of the test"))


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)


def tree_of(found: dict[str, Future[Path]]) -> list[Tree]:
    return [read_model(path.result(60)).model for path in found.values()]


# The first time it keeps the number of the run, the second its shares, the third what was opened.
@pytest.mark.parametrize(
    ("keep", "written"),
    [
        (2, True),
        (3, False),
        (3, True),
        pytest.param(2, False, marks=pytest.mark.slow),
        pytest.param(1, True, marks=pytest.mark.slow),
    ],
)
def test_a_server_that_is_killed_comes_back_and_the_tree_is_the_same(
    town: Town, keep: int, written: bool
) -> None:
    job = secure_job()
    with run_of(town, job) as run:
        carried = run.carry()
        found = run.take_part("alder", "birch", *OWNERS)
        with pytest.raises(Killed):
            run.dies_at("cedar", keep, written=written).result(60)
        found |= run.take_part("cedar")
        trees = tree_of(found)
        report = carried.result(60)
    expected = town.secure_reference(job)
    assert all(same_tree(tree, expected) for tree in trees)
    assert (report["state"], report["events"], report["left_out"]) == ("done", [], [])
    for name in SERVERS:
        spent = Accounts(town.parties[name].state, town.policy(name)).spent("patients")
        assert [charge.key for charge in spent.charges] == [job.account_key]
        ledger = Ledger.from_json((town.run_folder(name, job) / "ledger.json").read_text())
        assert list(ledger.releases) == job.make_plan().releases(joint=True)
        meter = json.loads((town.run_folder(name, job) / "meter.json").read_text())
        assert len(meter["attempts"]) >= report["rounds"] // 2
    # The key of the run is forgotten, and the model is here without a coordinator.
    with serving(town, job, "cedar") as party:
        assert party.memory.data == b"the model is here"
        assert party.take_part() == party.model


def test_a_server_that_never_comes_is_named_and_the_run_goes_on_later(town: Town) -> None:
    job = secure_job(timeouts={"join": 30.0})
    with run_of(town, job) as run:
        carried = run.carry()
        found = run.take_part("alder", "birch", *OWNERS)
        # All three have brought their keys, and then one of them is gone.
        with serving(town, job, "cedar") as party:
            ask = run.carrier.rounds.next("cedar", 10.0).payload
            assert run.carrier.rounds.answer("cedar", digest(ask), party.answer(ask) or b"")
        status = run.carrier.rounds.status
        until(lambda: status().waiting_for == ("cedar",) and status().round == 1)
        run.now += 29.0
        run.carrier.rounds.tick()
        assert run.carrier.rounds.error is None
        run.now += 2.0
        with pytest.raises(HedgerowError, match="cedar") as caught:
            carried.result(60)
        assert caught.value.code is Code.SERVER_MISSING
        for path in found.values():
            with pytest.raises(HedgerowError, match="cedar"):
                path.result(60)
    with run_of(town, job) as run:
        carried = run.carry()
        trees = tree_of(run.take_part(*SERVERS, *OWNERS))
        carried.result(60)
    assert all(same_tree(tree, town.secure_reference(job)) for tree in trees)


def test_owners_refuse_a_key_that_the_coordinator_has_put_in(town: Town) -> None:
    job = secure_job()
    with run_of(town, job) as run:
        run.carry()
        found = run.take_part(*SERVERS)
        relay = run.carrier.rounds._conductor
        until(lambda: not relay._missing())
        delta = town.parties["delta"]
        forged = SignedKey.sign(SealingKey(), delta, job, relay._run, private=False)
        relay._keys["birch"] = forged
        with run.carrier.rounds._changed:
            run.carrier.rounds._refresh()
        for name in OWNERS:
            error = refuses(
                Code.SEALED_REFUSED, lambda name=name: run.take_part(name)[name].result(60)
            )
            assert "birch" in error.expected
        assert not {*OWNERS} & set(run.carrier.rounds.record.answers)
        with suppress(HedgerowError):
            run.carrier.rounds.stop(Code.PEER_STOPPED.error(found="enough"))
        for path in found.values():
            assert path.exception(60) is not None


def test_a_server_signs_its_key_for_one_run(town: Town) -> None:
    job = secure_job()
    with serving(town, job, "birch") as party:
        said = party.answer(KeyLetter(RUN).to_bytes())
    assert said is not None
    # After a restart it is the same key, and no other run gets one.
    with serving(town, job, "birch") as party:
        assert party.answer(KeyLetter(RUN).to_bytes()) == said
        refuses(Code.SEALED_REFUSED, lambda: party.answer(KeyLetter(bytes(16)).to_bytes()))
        secret = party._key.secret
    signed = SignedKey.from_bytes(said)
    assert not signed.private
    assert signed.check(town.parties["north"], job, RUN, "birch") == SealingKey(secret).public
    state = town.parties["birch"].state.root
    assert (state / "party.db").exists()
    for path in [*town.run_folder("birch", job).iterdir(), *state.glob("party.db*")]:
        text = path.read_bytes()
        assert secret not in text
        assert secret.hex().encode() not in text


def test_a_server_pays_when_it_is_asked_and_not_before(town: Town) -> None:
    job = secure_job(timeouts={"join": 0.2})
    account = Accounts(town.parties["birch"].state, town.policy("birch"))
    with serving(town, job, "birch") as party:
        # There is no coordinator.
        refuses(Code.SERVICE_UNREACHABLE, party.take_part)
        assert account.spent("patients").charges == ()
        assert party.memory.data is None
        party.answer(KeyLetter(RUN).to_bytes())
        assert [charge.key for charge in account.spent("patients").charges] == [job.account_key]


def test_who_may_serve_what(town: Town) -> None:
    job = secure_job()
    refuses(Code.WRONG_ROLE, lambda: serving(town, job, "north"))
    refuses(Code.JOB_WITHOUT_SERVERS, lambda: serving(town, make_job(owners=list(OWNERS)), "alder"))
    town.allow("alder", allow_exact="false", patients="10.0")
    error = refuses(Code.POLICY_REFUSES, lambda: serving(town, job, "alder"))
    assert "allow_exact" in error.expected
    town.allow("alder", allowed_protocols='["trees"]')
    refuses(Code.POLICY_REFUSES, lambda: serving(town, job, "alder", None))
    town.allow("alder", allowed_protocols='["topdown"]')
    with serving(town, job, "alder", None) as party:
        assert party.private
        refuses(Code.JOURNAL_IN_USE, lambda: serving(town, job, "alder", None))
        refuses(Code.BAD_ASK, lambda: party.answer(b"{}\n"))
    birch = town.parties["alder"].servers[1]
    changed(town, "alder", f"topdown_port = {birch.topdown_port}\n", "")
    error = refuses(Code.PORT_MISSING, lambda: serving(town, job, "alder", None))
    assert "birch" in error.found


def test_a_server_that_has_lost_its_folder_answers_no_more(town: Town) -> None:
    job = secure_job()
    with serving(town, job, "cedar") as party:
        party.charge()
    store = open_store(town.parties["cedar"].state)
    store._base.execute("DELETE FROM memories")
    refuses(Code.ANSWERS_LOST, lambda: serving(town, job, "cedar"))
