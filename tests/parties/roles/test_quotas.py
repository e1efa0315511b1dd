"""What one member makes a party keep is bounded by the party's policy, whatever it asks for."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.roles.uploading import renew_terms
from hedgerow.parties.store.database import LEAST_DEBT, open_store
from hedgerow.parties.wire.inbox import Inbox
from tests.parties.roles.owner_wards import Wards, one
from tests.parties.roles.upload_servers import SERVERS, serving
from tests.parties.runs.run_servers import set_line
from tests.parties.wire.parties_calls import refuses

ROOM = 12 * LEAST_DEBT


@pytest.fixture
def wards(tmp_path: Path) -> Iterator[Wards]:
    made = Wards(tmp_path)
    with serving(made.parties, made.verbs):
        made.upload()
        yield made


def bound(wards: Wards) -> None:
    """Let all that members may leave at the servers be a few requests."""
    for made in wards.managers.values():
        made.policy.become(made.policy.model_copy(update={"state_bytes_per_member": ROOM}))


def debt(wards: Wards, member: str, name: str = "alder") -> int:
    with open_store(wards.parties[name].state).snapshot() as made:
        found = made.rows("debts", member=member)
    return found[0]["octets"] if found else 0


def until_refused(ask: Callable[[int], object]) -> HedgerowError:
    """Ask again and again; it is refused within the bound."""

    def ask_more() -> None:
        for k in range(ROOM // LEAST_DEBT + 1):
            ask(k)

    error = refuses(Code.POLICY_REFUSES, ask_more)
    assert f"state_bytes_per_member = {ROOM}" in error.expected
    return error


def test_uploads(wards: Wards) -> None:
    bound(wards)
    taken: list[str] = []

    def upload(k: int) -> None:
        wards.upload(f"north-more-{k}", seed=k)
        taken.append(f"north-more-{k}")

    error = until_refused(upload)
    assert error.party in SERVERS
    assert 0 < debt(wards, "north") <= ROOM
    # What was refused has left nothing, not even its id.
    state = wards.parties["alder"].state
    assert {path.name for path in state.path("uploads").iterdir()} == {"north-1", *taken}
    with open_store(state).snapshot() as made:
        assert set(made.uploads()) == {"north-1", *taken}
    # Others have a bound of their own.
    assert debt(wards, "zoe") == 0
    wards.post(one())


def test_terms_back_and_forth(wards: Wards) -> None:
    bound(wards)
    before, sent = wards.trail("alder").count("terms"), list[int]()

    def change(k: int) -> None:
        set_line(wards.policy_file("north"), "largest_depth", str(1 + k % 2))
        sent.append(k)
        renew_terms(wards.north, "patients", None)

    until_refused(change)
    assert wards.trail("alder").count("terms") - before < ROOM // LEAST_DEBT
    # The same once more leaves nothing, and is not counted.
    left = debt(wards, "north")
    change(sent[-1] - 1)
    assert debt(wards, "north") == left


def test_jobs_also_those_with_a_model(wards: Wards) -> None:
    bound(wards)

    def train(k: int) -> None:
        job = one(f"job-{k}", plan={"epsilon": 0.01})
        wards.post(job)
        for made in wards.managers.values():
            made.store.change(made.store.get(job.run_id), "done", closed=True)

    until_refused(train)
    kept = len(wards.managers["alder"].store.all())
    assert 0 < kept < ROOM // LEAST_DEBT
    # The jobs themselves count, of which each may have a megabyte.
    assert debt(wards, "zoe") > kept * (LEAST_DEBT + 500)
    again = one("job-0", plan={"epsilon": 0.01})
    wards.post(again)
    assert len(wards.managers["alder"].store.all()) == kept


def test_runs_stopped_and_resumed(wards: Wards) -> None:
    bound(wards)
    job, made = one(), wards.managers["alder"]
    wards.post(job)
    before = len(wards.trail("alder"))

    def turn(_: int) -> None:
        made.end(job.run_id, "north")
        made.resume(job.run_id, "north")

    until_refused(turn)
    assert len(wards.trail("alder")) - before <= 2 * ROOM // LEAST_DEBT
    # It can be stopped by whoever has no room for more.
    assert made.show(job.run_id)["state"] == "stopped"


def test_attempts(wards: Wards) -> None:
    """What is begun again and again is refused before it would be charged; others' jobs are not."""
    bound(wards)
    job, fresh, made = one(), one("fresh"), wards.managers["birch"]
    wards.post(job)
    wards.post(fresh)

    def go(k: int) -> None:
        made.go(job.run_id, job.hash, k + 1, bytes(16), SERVERS, "alder")

    until_refused(go)
    assert 0 < debt(wards, made.store.get(job.run_id).by, "birch") <= ROOM
    # Who leads does so for everybody, and is not the one that pays.
    assert debt(wards, "alder", "birch") == 0
    made._end_child()
    spent = wards.spent("birch")
    go_fresh = (fresh.run_id, fresh.hash, 1, bytes(16), SERVERS, "alder")
    refuses(Code.POLICY_REFUSES, lambda: made.go(*go_fresh))
    assert wards.spent("birch") == spent


def test_resumptions(wards: Wards) -> None:
    """Also of a run that is open, and stops of one that is stopped."""
    bound(wards)
    job, made = one(), wards.managers["birch"]
    wards.post(job)
    by = made.store.get(job.run_id).by
    until_refused(lambda k: made.resume(job.run_id, by, k + 1))
    made.end(job.run_id, by)
    until_refused(lambda k: made.end(job.run_id, by, 100 + k))
    assert debt(wards, by, "birch") <= ROOM


def test_letters() -> None:
    inbox, errors = Inbox(), []

    def ask() -> None:
        try:
            inbox.ask("north", "health", {}, seconds=3.0)
        except HedgerowError as error:
            errors.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(70)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors.count(Code.SERVICE_BUSY) == 70 - 64
    assert errors.count(Code.SERVICE_UNREACHABLE) == 64
    # Who waits no longer leaves nothing behind.
    assert not any(inbox._waiting.values())
    assert not any(inbox._fetched.values())
