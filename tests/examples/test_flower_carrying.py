"""What becomes of owners that refuse, fall silent or forget, on a grid in this process."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "flower"))

from hedgerow.parties.topdown.job import TopDownJob, TopDownTimeouts
from hedgerow.parties.topdown.owner import encoded_table
from prepare import prepare
from topdown_app.carrying import ASK_AGAIN, Carrying
from topdown_app.messages import REFUSED
from topdown_app.run_folder import RunFolder

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.trees import Tree, read_model
from tests.examples.local_grid import LocalGrid
from tests.protocols.topdown.topdown_cases import grow_topdown

SEED = 5
WAIT = 20.0


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Demo:
    """The folders of a job, and what it takes to run it."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.folder = folder
        self.job = prepare(folder, insecure_seed=SEED, n_splits=3, max_depth=2, **changes)
        self.owners = {name: folder / "owners" / name for name in self.job.owners}
        self.change(timeouts=TopDownTimeouts(join=WAIT, answer=WAIT))

    def change(self, **changes: object) -> None:
        """Change the job at all parties."""
        self.job = self.job.model_copy(update=changes)
        for path in (self.folder, *self.owners.values()):
            (path / "job.toml").write_text(self.job.to_toml())

    def run(self, grid: LocalGrid, job: TopDownJob | None = None) -> dict:
        """Run the job to its end; return the report."""
        clock, job = Clock(), self.job if job is None else job
        with RunFolder(job, self.folder / "result", clock=clock) as run:
            way = Carrying(grid, run.rounds, job, poll=0.5, clock=clock, sleep=clock.sleep)
            try:
                way.carry()
            finally:
                report = run.report(way.seconds)
        return report

    @property
    def model(self) -> Tree:
        return read_model(self.folder / "result" / self.job.run_id / "model.json").model

    def alone(self, *without: str) -> Tree:
        """Return the tree of one process, without some owners."""
        plan = self.job.make_plan()
        owners = {
            name: Owner(
                encoded_table(self.owners[name] / "table.parquet", self.job.domain),
                plan,
                name=name,
                source=NoiseSource.insecure_seeded(SEED + i),
            )
            for i, name in enumerate(self.job.owners)
            if name not in without
        }
        return grow_topdown(plan, owners)[0]


@pytest.mark.parametrize("method", ["noisy-counts", "local-rnm"])
@pytest.mark.parametrize("named", [True, False])
def test_the_tree_of_one_process(tmp_path: Path, method: str, named: bool) -> None:
    demo = Demo(tmp_path / "demo", method=method, epsilon=4.0)
    grid = LocalGrid(demo.owners, named=named)
    report = demo.run(grid)
    assert demo.model == demo.alone()
    assert demo.model.n_leaves > 1
    assert report["not_private"] == list(demo.job.owners)
    asked = [message for _, message in grid.sent if message.metadata.message_type == "query.name"]
    assert len(asked) == (0 if named else 4)


def test_goes_on_without_a_silent_owner(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    report = demo.run(LocalGrid(demo.owners, silent={"south"}))
    assert report["dropped"] == ["south"]
    assert demo.model == demo.alone("south")


def test_too_few_owners_stop_the_run_and_it_goes_on_later(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    with pytest.raises(HedgerowError) as caught:
        demo.run(LocalGrid(demo.owners, silent={"east", "south", "west"}))
    assert caught.value.code is Code.TOO_FEW_OWNERS
    # Who was lost stays lost; the owner that had answered gives the same answer again.
    report = demo.run(LocalGrid(demo.owners))
    assert demo.model == demo.alone(*report["dropped"])
    assert len(report["dropped"]) == 2


def test_waits_for_a_silent_owner(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    demo.change(dropouts="wait")
    grid = LocalGrid(demo.owners, silent={"west"})
    inner = grid.push_messages

    def heard_after_three(messages: list) -> list[str]:
        if sum(name == "west" for name, _ in grid.sent) == 2:
            grid.silent.clear()
        return inner(messages)

    grid.push_messages = heard_after_three  # type: ignore[method-assign]
    assert demo.run(grid)["dropped"] == []
    assert demo.model == demo.alone()


def test_a_node_that_started_anew_goes_on_from_its_disk(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners)
    inner = grid.pull_messages

    def forgetful(ids: set[str]) -> list:
        grid.forget("north")
        return inner(ids)

    grid.pull_messages = forgetful  # type: ignore[method-assign]
    assert demo.run(grid)["dropped"] == []
    assert demo.model == demo.alone()


@pytest.mark.parametrize("lost", ["state", "memory", "memory, and the node anew", "older"])
def test_an_owner_that_lost_its_state_refuses(tmp_path: Path, lost: str) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners)
    own, aside = demo.owners["north"] / "state", tmp_path / "aside"
    inner, done = grid.push_messages, []

    def losing(messages: list) -> list[str]:
        number = messages[0].metadata.group_id
        if grid.names[messages[0].metadata.dst_node_id] == "north" and number not in done:
            done.append(number)
            if lost == "older" and number == "1":
                shutil.copytree(own, aside)
            elif lost == "older" and number == "2":
                shutil.rmtree(own)
                shutil.copytree(aside, own)
            elif lost == "state" and number == "1":
                shutil.rmtree(own)
            elif lost != "older" and number == "1":
                store = open_store(StateFolder(own))
                store._base.execute("DELETE FROM memories")
                if lost.endswith("anew"):
                    grid.forget("north")
        return inner(messages)

    grid.push_messages = losing  # type: ignore[method-assign]
    report = demo.run(grid)
    assert report["dropped"] == ["north"]
    reasons = {reply.error.reason for reply in grid.replies if reply.has_error()}
    assert reasons == {"refused, H840; the owner's log says why"}


def test_a_coordinator_with_another_epsilon_is_refused(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    grid = LocalGrid(demo.owners)
    other = demo.job.model_copy(update={"plan": demo.job.plan.model_copy(update={"epsilon": 1.0})})
    with pytest.raises(HedgerowError) as caught:
        demo.run(grid, other)
    assert caught.value.code is Code.TOO_FEW_OWNERS
    assert grid.replies
    for reply in grid.replies:
        assert reply.error.code == REFUSED
        assert reply.error.reason == "refused, H891; the owner's log says why"
    assert not any((own / "state").exists() for own in demo.owners.values())
    # Asked again, but not at once.
    assert 2 * WAIT / ASK_AGAIN < len(grid.replies) <= 4 * (1 + WAIT / ASK_AGAIN)


def test_what_is_wrong_with_a_table_stays_at_its_owner(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    (demo.owners["east"] / "table.parquet").write_bytes(b"no table")
    grid = LocalGrid(demo.owners)
    assert demo.run(grid)["dropped"] == ["east"]
    reasons = {reply.error.reason for reply in grid.replies if reply.has_error()}
    assert reasons == {"refused, no number; the owner's log says why"}


def test_the_account_ends_it(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    for own in demo.owners.values():
        path = own / "policy.toml"
        path.write_text(path.read_text().replace("allow_exact = true", "allow_exact = false"))
    with pytest.raises(HedgerowError):
        demo.run(LocalGrid(demo.owners))
    assert not any((own / "state" / "topdown").exists() for own in demo.owners.values())
