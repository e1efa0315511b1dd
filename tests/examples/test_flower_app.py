"""The Flower app, deployed and simulated, grows the tree that one process grows."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "flower"))

from federation import deployed, simulated, simulation_options
from prepare import prepare

from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.part import encoded_table
from hedgerow.privacy import Ledger
from hedgerow.protocols.topdown.run import TopDownRun, run_topdown
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees import read_model

NO_NOISE = 1e6
"""An epsilon at which no draw of noise ever changes a count or a choice."""


def in_one_process(job: TopDownJob, folder: Path) -> TopDownRun:
    """Grow the tree in this process."""
    tables = {
        name: encoded_table(folder / "owners" / name / "table.parquet", job.domain, AbsorbedRows())
        for name in job.owners
    }
    return run_topdown(job.make_plan(), tables)


def check_result(job: TopDownJob, folder: Path) -> dict:
    """Compare what a run has written with the tree of one process; return the report."""
    out = folder / "result" / job.run_id
    expected = in_one_process(job, folder)
    assert expected.tree.n_leaves > 2
    assert read_model(out / "model.json").model == expected.tree
    report = json.loads((out / "report.json").read_text())
    traffic = expected.traffic
    assert report["rounds"] == traffic.rounds
    assert report["bytes"] == {"sent": traffic.sent, "received": traffic.received}
    assert report["lost"] == []
    for name in job.owners:
        own = folder / "owners" / name
        ledger = Ledger.from_json(
            (own / "state" / "runs" / job.run_id / "ledger.json").read_text(), job.domain
        )
        assert ledger.formal_total().epsilon == pytest.approx(NO_NOISE)
        assert not ledger.not_private
        (balance,) = balances_in(own)
        assert [charge.key for charge in balance.spent.charges] == [job.account_key]
    return report


@pytest.mark.long
def test_deployed_with_tls_and_registered_supernodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, flower = tmp_path / "demo", tmp_path / "flower"
    # Flower starts a process for every message to an owner.
    job = prepare(folder, n_owners=2, epsilon=NO_NOISE, n_splits=2, max_depth=2)
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
    assert "2 splits in" in text, text
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
        row = made.row("memories", run=run)
    return b"" if row is None else row["data"]


@pytest.mark.slow
def test_a_supernode_that_was_killed_goes_on(tmp_path: Path) -> None:
    folder, flower = tmp_path / "demo", tmp_path / "flower"
    job = prepare(folder, epsilon=NO_NOISE, n_splits=3, max_depth=2)
    owners = {name: folder / "owners" / name for name in job.owners}
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
        check_result(job, folder)
        # The same job again is done at once, and costs nobody anything.
        assert "3 splits in 3 rounds" in federation.run(timeout=100.0, **run)
        check_result(job, folder)
    assert federation.left() == []


@pytest.mark.slow
def test_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, flower = tmp_path / "demo", tmp_path / "flower"
    job = prepare(folder, epsilon=NO_NOISE, n_splits=3, max_depth=2, method="local-rnm")
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
    assert "3 splits in" in text, text
    report = check_result(job, folder)
    assert report["method"] == "local-rnm"
    assert federation.left() == []
    with capsys.disabled():
        print(
            f"\nsimulated: {seconds:.1f} s, {report['rounds']} rounds of {report['seconds']} s, "
            f"{report['bytes']} bytes"
        )
