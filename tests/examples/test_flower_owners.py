"""What becomes of owners that refuse, fall silent, die or forget, on a grid in this process."""

import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

sys.path.append(str(Path(__file__).parents[2] / "examples" / "flower"))

from prepare import prepare
from topdown_app.grid_network import ASK_AGAIN
from topdown_app.messages import ANSWER, NAME, REFUSED, read_field, record
from topdown_app.server_app import grow

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import Claim, StateFolder
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.part import encoded_table
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.run import TopDownRun, run_topdown
from hedgerow.protocols.topdown.wire import Ask, TopDownAnswer
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees import Tree, read_model
from tests.examples.local_grid import LocalGrid, ProcessKilledError

NO_NOISE = 1e6
"""An epsilon at which no draw of noise ever changes a count or a choice."""
WAIT = 20.0


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Demo:
    """The folders of a job, and what it takes to run it."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        settings = {"epsilon": NO_NOISE, "n_splits": 3, "max_depth": 2}
        self.job = prepare(folder, **settings | changes)
        self.owners = {name: folder / "owners" / name for name in self.job.owners}

    def run(self, grid: LocalGrid, job: TopDownJob | None = None) -> dict[str, Any]:
        """Run the job to its end; return the report."""
        job = self.job if job is None else job
        return grow(grid, job, self.folder / "result", wait=WAIT, poll=0.5, clock=Clock())

    @property
    def model(self) -> Tree:
        model = read_model(self.folder / "result" / self.job.run_id / "model.json").model
        assert isinstance(model, Tree)
        return model

    def alone(self, *without: str) -> TopDownRun:
        """Grow the tree in one process, without some owners."""
        tables = {
            name: encoded_table(own / "table.parquet", self.job.domain, AbsorbedRows())
            for name, own in self.owners.items()
            if name not in without
        }
        return run_topdown(self.job.make_plan(), tables)

    def charges(self) -> list[str]:
        """Return the keys of all charges of all owners."""
        found = (balances_in(own) for own in self.owners.values())
        return [charge.key for (one,) in found for charge in one.spent.charges]


def reasons(grid: LocalGrid) -> set[str]:
    return {reply.error.reason for reply in grid.replies if reply.has_error()}


def asked(grid: LocalGrid, kind: str = ANSWER) -> list[str]:
    return [name for name, message in grid.sent if message.metadata.message_type == kind]


def ask_of(message: Message) -> Ask:
    data = read_field(message.content, "ask", bytes)
    assert data
    return Ask.from_bytes(data)


@pytest.mark.parametrize("named", [True, False])
def test_nodes_with_names_and_without(tmp_path: Path, named: bool) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners, named=named)
    report = demo.run(grid)
    assert demo.model == demo.alone().tree
    assert report["lost"] == []
    assert len(asked(grid)) == 4 * report["rounds"] == 4 * len(report["seconds"])
    assert len(asked(grid, NAME)) == (0 if named else 4)
    # The same job again is done at once, and costs nobody anything; nobody has to be there.
    assert demo.run(LocalGrid({}))["rounds"] == report["rounds"]
    assert demo.charges() == 4 * [demo.job.account_key]


def test_goes_on_without_a_silent_owner(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners, silent={"south"})
    assert demo.run(grid)["lost"] == ["south"]
    assert asked(grid).count("south") == 1
    assert demo.model == demo.alone("south").tree


def test_goes_on_without_an_owner_whose_node_is_not_there(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    there = {name: own for name, own in demo.owners.items() if name != "west"}
    assert demo.run(LocalGrid(there))["lost"] == ["west"]
    # Who was lost stays lost, and is not waited for.
    assert demo.run(LocalGrid(demo.owners))["lost"] == ["west"]
    assert demo.model == demo.alone("west").tree


def test_too_few_owners_stop_the_run_and_it_goes_on_later(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    with pytest.raises(HedgerowError) as caught:
        demo.run(LocalGrid(demo.owners, silent={"east", "south", "west"}))
    assert caught.value.code is Code.TOO_FEW_OWNERS
    grid = LocalGrid(demo.owners)
    assert demo.run(grid)["lost"] == []
    assert demo.model == demo.alone().tree
    # What was heard of the one that had answered is not asked for again.
    assert asked(grid).count("north") == asked(grid).count("east") - 1


def test_who_fails_is_asked_again(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    failures = iter(range(3))

    def fail(name: str, message: Message) -> None:
        if name == "west" and next(failures, None) is not None:
            raise ProcessKilledError

    grid = LocalGrid(demo.owners, before=fail)
    assert demo.run(grid)["lost"] == []
    assert asked(grid).count("west") == asked(grid).count("east") + 3
    assert demo.model == demo.alone().tree


def test_a_node_that_started_anew_goes_on_from_its_disk(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners)
    grid.before = lambda name, message: grid.forget("north")
    assert demo.run(grid)["lost"] == []
    assert demo.model == demo.alone().tree


@pytest.mark.parametrize("lost", ["state", "memory", "memory, and the node anew", "older"])
def test_an_owner_that_lost_its_state_refuses(tmp_path: Path, lost: str) -> None:
    demo = Demo(tmp_path / "demo")
    own, aside = demo.owners["north"] / "state", tmp_path / "aside"
    done: set[int] = set()

    def lose(name: str, message: Message) -> None:
        number = ask_of(message).round
        if name != "north" or number in done:
            return
        done.add(number)
        if lost == "older" and number == 1:
            shutil.copytree(own, aside)
        elif lost == "older" and number == 2:
            shutil.rmtree(own)
            shutil.copytree(aside, own)
        elif lost == "state" and number == 1:
            shutil.rmtree(own)
        elif lost != "older" and number == 1:
            store = open_store(StateFolder(own))
            store._base.execute("DELETE FROM memories")
            if lost.endswith("anew"):
                grid.forget("north")

    grid = LocalGrid(demo.owners, before=lose)
    assert demo.run(grid)["lost"] == ["north"]
    assert reasons(grid) == {"refused, H840; the owner's log says why"}


def test_a_coordinator_with_another_epsilon_is_refused(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners)
    other = demo.job.model_copy(update={"plan": demo.job.plan.model_copy(update={"epsilon": 1.0})})
    with pytest.raises(HedgerowError) as caught:
        demo.run(grid, other)
    assert caught.value.code is Code.TOO_FEW_OWNERS
    assert {reply.error.code for reply in grid.replies} == {REFUSED}
    assert reasons(grid) == {"refused, H891; the owner's log says why"}
    assert not any((own / "state").exists() for own in demo.owners.values())
    # Asked again, but not at once.
    assert 2 * WAIT / ASK_AGAIN < len(grid.replies) <= 4 * (1 + WAIT / ASK_AGAIN)


@pytest.mark.parametrize("when", ["first", "later"])
def test_what_is_wrong_with_a_table_stays_at_its_owner(tmp_path: Path, when: str) -> None:
    """One that cannot be read, and one that has changed since the first answer."""
    demo = Demo(tmp_path / "demo")
    table = demo.owners["east"] / "table.parquet"

    def change(name: str, message: Message) -> None:
        if name == "east" and when == "later" and ask_of(message).round == 1:
            shutil.copyfile(demo.owners["west"] / "table.parquet", table)

    if when == "first":
        table.write_bytes(b"no table")
    grid = LocalGrid(demo.owners, before=change)
    assert demo.run(grid)["lost"] == ["east"]
    assert reasons(grid) == {"refused, no number; the owner's log says why"}
    assert len(demo.charges()) == (3 if when == "first" else 4)


@pytest.mark.parametrize("line", ["patients = ", "largest_epsilon_per_job = "])
def test_policy_and_account_refuse(tmp_path: Path, line: str) -> None:
    demo = Demo(tmp_path / "demo")
    for own in demo.owners.values():
        path = own / "policy.toml"
        lines = path.read_text().splitlines()
        (at,) = (i for i, text in enumerate(lines) if text.startswith(line))
        lines[at] = f"{line}{NO_NOISE / 2}"
        path.write_text("\n".join(lines))
    grid = LocalGrid(demo.owners)
    with pytest.raises(HedgerowError) as caught:
        demo.run(grid)
    assert caught.value.code is Code.TOO_FEW_OWNERS
    assert reasons(grid) == {"refused, H858; the owner's log says why"}
    assert demo.charges() == []


def test_nodes_that_the_job_does_not_name_are_not_asked(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    stranger = tmp_path / "stranger"
    shutil.copytree(demo.owners["north"], stranger)
    grid = LocalGrid({"stranger": stranger, **demo.owners})
    demo.run(grid)
    assert set(asked(grid)) == set(demo.job.owners)


def test_of_two_nodes_with_one_name_the_first_is_asked(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    twin = tmp_path / "twin"
    shutil.copytree(demo.owners["north"], twin)
    grid = LocalGrid({**demo.owners, "twin": twin}, named=False)
    demo.run(grid)
    assert set(asked(grid)) == set(demo.job.owners)
    assert not (twin / "state").exists()


@pytest.mark.parametrize("fields", [{}, {"ask": b""}, {"ask": b"?"}, {"ask": 1, "job": "?"}])
def test_a_message_without_a_question_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid({"north": demo.owners["north"]})
    grid.pull_messages(grid.push_messages([Message(record(**fields), 2, ANSWER)]))
    assert reasons(grid) == {"refused, H820; the owner's log says why"}
    assert demo.charges() == []


def test_a_run_is_for_one_process(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    state = StateFolder(demo.folder / "result")
    state.folder(demo.job.run_id)
    claim = Claim(state.path(demo.job.run_id, "lock"))
    with pytest.raises(HedgerowError) as caught:
        demo.run(LocalGrid(demo.owners))
    assert caught.value.code is Code.JOURNAL_IN_USE
    claim.release()
    demo.run(LocalGrid(demo.owners))


class Killer:
    """Ends a process before or after one of its durable steps, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
        self.steps, self.kill = 0, (-1, "")
        inner, killer = Store.transaction, self

        @contextmanager
        def transaction(store: Store, *more: Any) -> Iterator[Any]:
            if store.state.root != state:
                with inner(store, *more) as made:
                    yield made
                return
            with killer.step(), inner(store, *more) as made:
                yield made

        monkeypatch.setattr(Store, "transaction", transaction)

    def step(self) -> AbstractContextManager[None]:
        @contextmanager
        def step() -> Iterator[None]:
            number, self.steps = self.steps, self.steps + 1
            self._end(number, "before")
            yield
            self._end(number, "after")

        return step()

    def _end(self, number: int, when: str) -> None:
        if self.kill == (number, when):
            raise ProcessKilledError


@pytest.mark.parametrize(
    ("who", "method"),
    [("north", "noisy-counts"), ("north", "local-rnm"), ("coordinator", "noisy-counts")],
)
def test_wherever_somebody_is_killed_nobody_draws_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, method: str
) -> None:
    """With noise that would differ if it were drawn again: one question, and one answer to it."""

    def disturbed(number: int, when: str) -> tuple[int, int]:
        """Make a run with a kill; return the steps of who is killed, and how often it was."""
        place = tmp_path / f"{number}-{when}"
        demo = Demo(place, n_splits=1, max_depth=1, epsilon=1.0, method=method)
        state = demo.folder / "result" if who == "coordinator" else demo.owners[who] / "state"
        grids, killed = [], 0
        with monkeypatch.context() as patch:
            killer = Killer(patch, state)
            killer.kill = number, when
            for _ in range(2):
                grids.append(LocalGrid(demo.owners))
                try:
                    demo.run(grids[-1])
                    break
                except ProcessKilledError:
                    killed += 1
        left = all_that_left(grids)
        assert all(len(found) == 1 for found in left.values())
        again = Coordinator(demo.job.make_plan(), demo.job.owners)
        while asks := again.asks():
            for name, ask in asks.items():
                assert left["ask", name, again.round] == {ask}
                (answer,) = left["answer", name, again.round]
                again.hear(name, answer)
        assert again.tree() == demo.model
        assert demo.charges() == 4 * [demo.job.account_key]
        return killer.steps, killed + sum(
            reply.has_error() for grid in grids for reply in grid.replies
        )

    steps, killed = disturbed(-1, "")
    rounds = 3 if method == "local-rnm" else 2
    # An owner begins, charges its ledger and pins its table; each time it looks into its account
    # as one who may write, and keeps the answer.
    assert steps == (4 * rounds if who == "coordinator" else 3 + 2 * rounds)
    assert killed == 0
    for number in range(steps):
        for when in ("before", "after"):
            assert disturbed(number, when)[1] == 1


def all_that_left(grids: list[LocalGrid]) -> dict[tuple[str, str, int], set[bytes]]:
    """Return questions and answers by name and round."""
    left = defaultdict(set)
    for grid in grids:
        for name, message in grid.sent:
            left["ask", name, ask_of(message).round].add(read_field(message.content, "ask", bytes))
        for reply in grid.replies:
            if reply.has_content():
                data = read_field(reply.content, "answer", bytes)
                name = grid.names[reply.metadata.src_node_id]
                left["answer", name, TopDownAnswer.from_bytes(data).round].add(data)
    return left
