"""The Flower app, deployed and simulated, grows the tree that one process grows."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "flower"))

from federation import deployed, simulated, simulation_options
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import encoded_table
from prepare import prepare

from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown.coordinator import CoordinatorTraffic
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.trees import Tree, read_model
from tests.protocols.topdown.topdown_cases import grow_topdown

SEED = 11


def in_one_process(job: TopDownJob, folder: Path) -> tuple[Tree, CoordinatorTraffic]:
    """Grow the tree with plain owners, seeded alike."""
    plan = job.make_plan()
    owners = {
        name: Owner(
            encoded_table(folder / "owners" / name / "table.parquet", job.domain),
            plan,
            name=name,
            source=NoiseSource.insecure_seeded(SEED + i),
        )
        for i, name in enumerate(job.owners)
    }
    return grow_topdown(plan, owners)


def check_result(job: TopDownJob, folder: Path) -> dict:
    """Compare what a run has written with the tree of one process; return the report."""
    out = folder / "result" / job.run_id
    tree, traffic = in_one_process(job, folder)
    assert tree.n_leaves > 2
    found = read_model(out / "model.json")
    assert found.model == tree
    report = json.loads((out / "report.json").read_text())
    assert report["state"] == "done"
    assert report["rounds"] == traffic.rounds
    assert report["bytes"]["received"] == traffic.received
    # A question may be sent twice where the machine is busy; its answer counts once.
    assert report["bytes"]["sent"] >= traffic.sent
    assert report["dropped"] == []
    assert report["not_private"] == list(job.owners)
    for name in job.owners:
        own = folder / "owners" / name / "state" / "topdown" / job.run_id
        ledger = Ledger.from_json((own / "ledger.json").read_text())
        assert ledger.formal_total().epsilon == pytest.approx(job.plan.epsilon)
        assert ledger.not_private
    return report


def test_deployed_with_tls_and_registered_supernodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, flower = tmp_path / "demo", tmp_path / "flower"
    job = prepare(folder, insecure_seed=SEED, n_splits=3, max_depth=2)
    flower.mkdir()
    begun = time.monotonic()
    owners = {name: folder / "owners" / name for name in job.owners}
    with deployed(flower, owners) as federation:
        text = federation.run(
            job=str(folder / "job.toml"), out=str(folder / "result"), timeout=400.0
        )
        assert len(federation.left()) > len(job.owners)
    seconds = time.monotonic() - begun
    assert "no row, no exact count" in text, text
    report = check_result(job, folder)
    assert report["method"] == "noisy-counts"
    assert federation.left() == []
    for name in job.owners:
        assert "noisy bytes" in federation.log(name)
    with capsys.disabled():
        print(
            f"\ndeployed: {seconds:.1f} s, {report['rounds']} rounds of {report['seconds']} s, "
            f"{report['bytes']} bytes"
        )


def memory_in(state: Path, run: str) -> bytes:
    """Return what an owner has kept of a run; nothing before it has begun."""
    if not (state / "party.db").exists():
        return b""
    with open_store(StateFolder(state)).snapshot() as made:
        return made.memory(run) or b""


@pytest.mark.slow
def test_a_supernode_that_was_killed_goes_on(tmp_path: Path) -> None:
    folder, flower = tmp_path / "demo", tmp_path / "flower"
    job = prepare(folder, insecure_seed=SEED, n_splits=3, max_depth=2)
    job = job.model_copy(update={"dropouts": "wait"})
    owners = {name: folder / "owners" / name for name in job.owners}
    for place in (folder, *owners.values()):
        (place / "job.toml").write_text(job.to_toml())
    flower.mkdir()
    run = {"job": str(folder / "job.toml"), "out": str(folder / "result")}
    state = owners["north"] / "state"
    with deployed(flower, owners) as federation, ThreadPoolExecutor(1) as pool:
        running = pool.submit(federation.run, timeout=500.0, **run)
        # The answer is drawn and kept; it has not left the SuperNode, or only just.
        while b'"round":0' not in memory_in(state, job.run_id):
            time.sleep(0.02)
            assert not running.done()
        federation.processes["north"].kill()
        federation.processes["north"].wait()
        # Two heartbeats of 30 seconds, after which the SuperLink takes it back.
        time.sleep(65.0)
        federation.start_supernode("north", owners["north"])
        running.result()
        before = [balances_in(own) for own in owners.values()]
        assert [len(balance.spent.charges) for (balance,) in before] == [1] * len(owners)
        # The same job again is done at once, and costs nobody anything.
        assert "3 splits in 3 rounds" in federation.run(timeout=100.0, **run)
        assert [balances_in(own) for own in owners.values()] == before
    assert federation.left() == []
    found = read_model(folder / "result" / job.run_id / "model.json")
    assert found.model == in_one_process(job, folder)[0]


@pytest.mark.slow
def test_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, flower = tmp_path / "demo", tmp_path / "flower"
    job = prepare(
        folder, insecure_seed=SEED, n_splits=3, max_depth=2, method="local-rnm", epsilon=4.0
    )
    flower.mkdir()
    begun = time.monotonic()
    with simulated(flower) as federation:
        text = federation.run(
            *simulation_options(len(job.owners)),
            job=str(folder / "job.toml"),
            out=str(folder / "result"),
            simulated_owners=str(folder / "owners"),
            timeout=400.0,
        )
        assert federation.left()
    seconds = time.monotonic() - begun
    assert "no row, no exact count" in text, text
    report = check_result(job, folder)
    assert report["method"] == "local-rnm"
    assert federation.left() == []
    with capsys.disabled():
        print(
            f"\nsimulated: {seconds:.1f} s, {report['rounds']} rounds of {report['seconds']} s, "
            f"{report['bytes']} bytes"
        )
