"""DP-TopDown between processes: the tree of one process, charged once at every owner."""

import json
from pathlib import Path

import pytest

from hedgerow.parties.store.accounts import balances_in
from hedgerow.trees import Tree
from tests.parties.runs.topdown_jobs import (
    NO_NOISE,
    OWNERS,
    SERVERS,
    make_job,
    reference,
    topdown_town,
)


@pytest.mark.parametrize("method", ["noisy-counts", "secure-counts"])
def test_the_tree_is_that_of_one_process(tmp_path: Path, method: str) -> None:
    secret = method == "secure-counts"
    town = topdown_town(tmp_path, secret=secret)
    try:
        town.start()
        job = make_job(plan={"method": method, "epsilon": NO_NOISE})
        run = town.post(job, "north")
        town.until_state(run, "done")
        expected = reference(town, job).to_dict()
        for name in town.serving:
            stored = town.model(name, "wards")
            assert Tree.from_json(json.dumps(stored.tree)).to_dict() == expected, name
        for name in (*OWNERS, *(SERVERS if secret else ())):
            (balance,) = balances_in(town.parties[name].folder)
            assert [c.key for c in balance.spent.charges] == [job.account_key]
            assert balance.spent.epsilon == pytest.approx(job.costs()["public"].epsilon)
        assert not (town.parties["delta"].folder / "state" / "accounts").exists()
    finally:
        town.stop()
