"""What an owner keeps of a run: how far it is, and what was drawn; a damaged state is refused."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.owner_run import OwnerRun, RepeatableSource, last_round
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.tables import encode
from tests.parties.topdown.topdown_town import SEEDS, make_job, people
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

    def _answered(self, ask: bytes) -> bytes:
        return self.owner.answer(ask)


def test_every_question_may_meet_another_process(tmp_path: Path) -> None:
    answers = []
    for folder, anew in ((tmp_path / "one", False), (tmp_path / "other", True)):
        folder.mkdir()
        coordinator, run = Coordinator(JOB.make_plan(), ["north"]), Alone(folder)
        assert run.kept.data is None
        run.charge()
        assert last_round(run.kept.data) == -1
        answers.append([])
        while asks := coordinator.asks():
            if anew:
                run.__exit__(None, None, None)
                run = Alone(folder)
            said = run.answer(asks["north"])
            assert run.answer(asks["north"]) == said
            assert last_round(run.kept.data) == coordinator.round
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
        assert run.kept.data is not None
        run.kept.keep(line + b"\n" + run.kept.data.partition(b"\n")[2])
    refuses(Code.ANSWERS_LOST, lambda: Alone(tmp_path))


def test_a_repeatable_source_goes_on_where_it_was() -> None:
    source, again = RepeatableSource.insecure_seeded(3), RepeatableSource.insecure_seeded(3)
    source.bytes(100)
    later = source.bytes(50)
    again.bytes(source.drawn - 50)
    assert again.bytes(50).tolist() == later.tolist()
    assert again.drawn == 150
