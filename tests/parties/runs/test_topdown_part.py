"""DP-TopDown between processes: the tree of one process, charged once at every owner."""

import json
from pathlib import Path

import pyarrow.csv
import pytest

from hedgerow import Consortium
from hedgerow.parties.runs.topdown_job import TopDownJob
from hedgerow.parties.store.accounts import balances_in
from hedgerow.tables import encode
from hedgerow.trees import Tree
from tests.parties.runs.topdown_jobs import (
    NO_NOISE,
    OWNERS,
    SERVERS,
    make_job,
    people,
    reference,
    topdown_town,
)
from tests.parties.towns import Town, json_of


def check_the_commands(town: Town, job: TopDownJob, grown: Tree) -> None:
    """The run and its model by the same verbs as any other, and by the client in Python."""
    (row,) = json_of(town.command("north", "runs", "list", "--format", "json"))["rows"]
    called = [name for name in town.serving if town.parties[name].me.takes_calls]
    assert row == {"run": job.run_id, "parties": dict.fromkeys(called, "done")}
    (kept,) = json_of(town.command("north", "models", "list", "--format", "json"))["rows"]
    assert (kept["model"], kept["servers"]) == ("wards", dict.fromkeys(called, "kept"))
    rows = people(20, 99).drop_columns(["ill"])
    path = town.root / "asked.csv"
    pyarrow.csv.write_csv(rows, path)
    asked = json_of(town.command("south", "query", "wards", path, "--format", "json"))["rows"]
    here = Consortium(town.parties["north"].folder)
    model = here.model("wards")
    labels = [
        job.domain.target.classes[k] for k in grown.predict_class(encode(rows, job.domain).bins)
    ]
    assert [one["class"] for one in asked] == list(model.predict(rows)) == list(labels)
    assert model.predict_proba(rows).shape == (20, 2)
    assert [shelf.line.model for shelf in here.models()] == ["wards"]
    assert any(entry.kind == "charge" for entry in here.trail())


@pytest.mark.parametrize("method", ["noisy-counts", "secure-counts"])
def test_the_tree_is_that_of_one_process(tmp_path: Path, method: str) -> None:
    secret = method == "secure-counts"
    town = topdown_town(tmp_path, secret=secret)
    try:
        town.start()
        job = make_job(plan={"method": method, "epsilon": NO_NOISE})
        here = Consortium(town.parties["north"].folder)
        run = here.train(town.write(job))
        assert here.wait(run, progress=False).state == "done"
        town.until_state(run, "done")
        grown = reference(town, job)
        expected = grown.to_dict()
        check_the_commands(town, job, grown)
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
