"""An owner charges first, draws once, forgets nothing, and refuses when it has."""

import json
import shutil
from pathlib import Path

import pyarrow.csv
import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import Joining, OwnerRun, RepeatableSource, last_round
from hedgerow.privacy import Ledger
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.tables import encode
from tests.parties.topdown.topdown_town import SEEDS, Town, make_job, people
from tests.parties.wire.parties_calls import refuses

JOB = make_job(owners=["north"])
POLICY = Policy(
    largest_epsilon_per_job=10.0,
    allow_exact=True,
    allowed_protocols=("topdown",),
    allowed_analysts=(),
    queries_per_model=0,
    queries_per_analyst=0,
    populations={"patients": float("inf")},
)


class Alone(AccountedRun):
    """An owner whom somebody else carries the messages for."""

    def __init__(self, root: Path, rows: int = 50) -> None:
        super().__init__("north", StateFolder(root / "state"), POLICY, JOB, private=False)
        self.rows = rows
        self._open()

    def _begin(self) -> None:
        table = encode(people(self.rows, 1), JOB.domain, "ill")
        self.owner = OwnerRun(self, table, SEEDS["north"])

    def _answer(self, ask: bytes) -> bytes:
        return self.owner.answer(ask)


def test_every_question_may_meet_another_process(tmp_path: Path) -> None:
    answers = []
    for folder, anew in ((tmp_path / "one", False), (tmp_path / "other", True)):
        folder.mkdir()
        coordinator, run = Coordinator(JOB.make_plan(), ["north"]), Alone(folder)
        assert run.memory.data is None
        run.charge()
        assert last_round(run.memory.data) == -1
        answers.append([])
        while asks := coordinator.asks():
            if anew:
                run.__exit__(None, None, None)
                run = Alone(folder)
            said = run.answer(asks["north"])
            assert run.answer(asks["north"]) == said
            assert last_round(run.memory.data) == coordinator.round
            coordinator.hear("north", said)
            answers[-1].append(said)
        run.__exit__(None, None, None)
    assert answers[0] == answers[1]
    assert len(answers[0]) > 3


def test_another_table_is_refused_once_something_was_charged(tmp_path: Path) -> None:
    with Alone(tmp_path):
        pass
    with Alone(tmp_path, rows=51) as run:
        run.charge()
    refuses(Code.TABLE_CHANGED, lambda: Alone(tmp_path))


@pytest.mark.parametrize("state", [b"0\n", b"0\n{}", b'0\n{"round":[]}', b"x\n{}"])
def test_how_far_a_state_is_that_is_none(state: bytes) -> None:
    refuses(Code.ANSWERS_LOST, lambda: last_round(state))


@pytest.mark.parametrize("line", [b"", b"x", b"0 zz"])
def test_a_damaged_state(tmp_path: Path, line: bytes) -> None:
    with Alone(tmp_path) as run:
        run.charge()
        assert run.memory.data is not None
        run.memory.keep(line + b"\n" + run.memory.data.partition(b"\n")[2])
    refuses(Code.ANSWERS_LOST, lambda: Alone(tmp_path))


def test_a_repeatable_source_goes_on_where_it_was() -> None:
    source, again = RepeatableSource.insecure_seeded(3), RepeatableSource.insecure_seeded(3)
    source.bytes(100)
    later = source.bytes(50)
    again.bytes(source.drawn - 50)
    assert again.bytes(50).tolist() == later.tolist()
    assert again.drawn == 150


OWNERS = ("north", "south")


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, OWNERS)


@pytest.fixture
def job() -> TopDownJob:
    return make_job(owners=list(OWNERS))


def joined(town: Town, job: TopDownJob, name: str = "north", **options) -> Joining:
    return Joining(town.parties[name], town.policy(name), job, town.table(name), **options)


def first_ask(job: TopDownJob) -> bytes:
    return Coordinator(job.make_plan(), job.owners).asks()["north"]


def spent(town: Town, name: str = "north"):
    return Accounts(town.parties[name].state, town.policy(name)).spent("patients")


def test_the_account_is_charged_before_the_first_answer_and_once(town: Town, job: TopDownJob):
    at_the_answer = []
    with joined(town, job) as joining:
        assert spent(town).charges == ()
        assert not joining.charged
        answered = joining._answer

        def watched(ask: bytes) -> bytes:
            at_the_answer.append(spent(town).charges)
            return answered(ask)

        joining._answer = watched
        joining.answer(first_ask(job))
        assert joining.charged
    (charges,) = at_the_answer
    assert [(c.key, c.epsilon) for c in charges] == [
        (job.account_key, job.costs()["public"].epsilon)
    ]
    with joined(town, job) as joining:
        assert joining.charged
        joining.answer(first_ask(job))
    assert spent(town).charges == charges
    ledger = Ledger.from_json((town.run_folder("north", job) / "ledger.json").read_text())
    assert list(ledger.releases) == job.make_plan().releases()


def test_the_same_question_gets_the_same_bytes_after_a_restart(town: Town, job: TopDownJob):
    coordinator = Coordinator(job.make_plan(), job.owners)
    for _ in range(3):
        asks = coordinator.asks()
        for name, ask in asks.items():
            with joined(town, job, name) as joining:
                answer = joining.answer(ask)
            # Noise of the operating system: drawn anew it would differ.
            with joined(town, job, name) as joining:
                assert joining.answer(ask) == answer
            coordinator.hear(name, answer)
    assert coordinator.round == 3


def test_repeatable_noise_goes_on_where_it_was(town: Town, job: TopDownJob):
    town.allow_seeds()
    for name in OWNERS:
        shutil.copytree(town.parties[name].folder, town.root / f"copy-{name}")
    coordinator = Coordinator(job.make_plan(), job.owners)
    while asks := coordinator.asks():
        for name, ask in asks.items():
            with joined(town, job, name, insecure_seed=SEEDS[name]) as joining:
                coordinator.hear(name, joining.answer(ask))
    assert coordinator.tree().to_json() == town.reference(job).to_json()
    assert spent(town).epsilon == float("inf")
    text = (town.run_folder("north", job) / "ledger.json").read_text()
    assert not Ledger.from_json(text).total("public").private


def test_an_owner_that_has_lost_its_state_refuses(town: Town, job: TopDownJob):
    with joined(town, job) as joining:
        joining.answer(first_ask(job))
    store = open_store(town.parties["north"].state)
    with store.snapshot() as made:
        kept = made.memory(job.run_id)
    assert kept is not None
    store._base.execute("DELETE FROM memories")
    assert "charged" in refuses(Code.ANSWERS_LOST, lambda: joined(town, job)).found
    # Without a trace of the run but in the account it is the same.
    shutil.rmtree(town.run_folder("north", job))
    store._base.execute("DELETE FROM ledger_lines")
    refuses(Code.ANSWERS_LOST, lambda: joined(town, job))
    with store.transaction("put it back") as made:
        made.put_memory(job.run_id, kept)
    with joined(town, job) as joining:
        joining.answer(first_ask(job))


def test_what_ends_before_the_charge_is_begun_anew(town: Town, job: TopDownJob, monkeypatch):
    def crash(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Accounts, "charge", crash)
        with joined(town, job) as joining, pytest.raises(KeyboardInterrupt):
            joining.answer(first_ask(job))
    assert spent(town).charges == ()
    with joined(town, job) as joining:
        joining.answer(first_ask(job))
        assert len(spent(town).charges) == 1
        assert len(joining.ledger.releases) == len(job.make_plan().releases())


def test_no_answer_leaves_that_was_not_kept(town: Town, job: TopDownJob, monkeypatch):
    with joined(town, job) as joining:

        def full(data: bytes) -> None:
            raise Code.STATE_NOT_WRITTEN.error(found="a full disk")

        monkeypatch.setattr(joining.memory, "keep", full)
        refuses(Code.STATE_NOT_WRITTEN, lambda: joining.answer(first_ask(job)))


def test_the_policy_of_the_owner_counts(town: Town, job: TopDownJob):
    def refused(words: str, job: TopDownJob = job, **options) -> None:
        error = refuses(Code.POLICY_REFUSES, lambda: joined(town, job, **options))
        assert words in error.expected
        assert spent(town).charges == ()

    refused("allow_exact", insecure_seed=1)
    refused("populations", make_job(owners=list(OWNERS), population="staff"))
    town.allow("north", largest_epsilon_per_job="7.0")
    refused("largest_epsilon_per_job")
    town.allow("north", largest_epsilon_per_job="10.0", allowed_protocols='["trees"]')
    refused("allowed_protocols")
    town.allow("north", allowed_protocols='["topdown"]')
    again = make_job(owners=list(OWNERS), name="again")
    with joined(town, again) as late:
        with joined(town, job) as joining:
            joining.answer(first_ask(job))
        # There was enough for it when it began, and is no more when it is asked.
        refuses(Code.POLICY_REFUSES, lambda: late.answer(first_ask(again)))
    # The second of two jobs does not fit into the lifetime epsilon of the population.
    error = refuses(Code.POLICY_REFUSES, lambda: joined(town, again))
    assert "patients.epsilon = 10" in error.expected
    assert len(spent(town).charges) == 1


def test_a_table_without_rows_is_answered_for(town: Town, job: TopDownJob):
    town.table("north").write_text("age,ward,sex,ill\n")
    with joined(town, job) as joining:
        empty = joining.answer(first_ask(job))
    with joined(town, job, "south") as joining:
        full = joining.answer(first_ask(job))
    # Nobody can tell by the message: the same header, and as many bytes.
    assert empty.partition(b"\n")[0] == full.partition(b"\n")[0]
    assert len(empty) == len(full)


def test_another_table_is_refused_in_the_middle(town: Town, job: TopDownJob):
    # Before anything is charged any table is as good.
    with joined(town, job):
        pass
    pyarrow.csv.write_csv(people(200, 76), town.table("north"))
    with joined(town, job) as joining:
        joining.answer(first_ask(job))
    pyarrow.csv.write_csv(people(200, 77), town.table("north"))
    refuses(Code.TABLE_CHANGED, lambda: joined(town, job))
    kept = json.loads((town.run_folder("north", job) / "table.json").read_text())
    assert set(kept) == {"key", "digest"}


def test_who_may_join(town: Town, job: TopDownJob):
    refuses(Code.NOT_IN_JOB, lambda: joined(town, make_job(owners=["south"])))
    delta = town.parties["delta"]
    policy = town.policy("delta")
    refuses(Code.WRONG_ROLE, lambda: Joining(delta, policy, job, town.table("north")))
    with joined(town, job):
        refuses(Code.JOURNAL_IN_USE, lambda: joined(town, job))


def test_what_is_wrong_with_a_row_is_told_to_its_owner_alone(town: Town, job: TopDownJob):
    bad = "age,ward,sex,ill\n3,a,f,perhaps\nold,a,f,\n1,2\n"
    town.table("north").write_text(bad + "4,a,f,no\n" * (job.domain.capacity + 2))
    with joined(town, job) as joining:
        answer = joining.answer(first_ask(job))
        counts = json.loads((joining.folder / "owner-only.json").read_text())
    with joined(town, job, "south") as joining:
        full = joining.answer(first_ask(job))
    assert answer.partition(b"\n")[0] == full.partition(b"\n")[0]
    assert len(answer) == len(full)
    assert counts["note"].startswith("For the owner's eyes only")
    assert counts["rows without a target"] == 2
    assert counts["rows over the capacity"] == 2
    assert counts["broken lines"] == 1


def test_a_table_without_a_column_of_the_domain_costs_nothing(town: Town, job: TopDownJob):
    town.table("north").write_text("age,ward,sex\n3,a,f\n")
    refuses(Code.MISSING_COLUMN, lambda: joined(town, job))
    assert spent(town).charges == ()


def test_a_question_that_the_plan_does_not_allow_draws_nothing(town: Town, job: TopDownJob):
    other = make_job(owners=list(OWNERS), plan={"epsilon": 7.0})
    with joined(town, job) as joining:
        joining.charge()
        before = joining.memory.data
        refuses(Code.BAD_ASK, lambda: joining.answer(first_ask(other)))
        refuses(Code.BAD_ASK, lambda: joining.answer(b"nonsense"))
        assert joining.memory.data == before
