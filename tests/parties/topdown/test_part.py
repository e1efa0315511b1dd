"""DP-TopDown between processes: the verbs of any other run, one charge at every owner."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.csv
import pytest

from hedgerow import Consortium
from hedgerow.errors import Code
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.part import TopDownPart, encoded_table, pin_table
from hedgerow.privacy import Ledger
from hedgerow.tables import Encoded, encode
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees import Tree
from tests.parties.topdown.topdown_jobs import (
    DOMAIN,
    NO_NOISE,
    OWNERS,
    make_job,
    people,
    reference,
    topdown_town,
)
from tests.parties.towns import Town, json_of, set_line
from tests.parties.wire.parties_calls import refuses


def check_the_commands(town: Town, job: TopDownJob, grown: Tree) -> None:
    """The run and its model by the same verbs as any other, and by the client in Python."""
    (row,) = json_of(town.command("north", "runs", "list", "--format", "json"))["rows"]
    called = [name for name in town.serving if town.parties[name].me.takes_calls]
    assert (row["run"], row["parties"]) == (job.run_id, dict.fromkeys(called, "done"))
    assert (row["model"], row["by"]) == ("wards", "north")
    # Beside a coordinator nobody takes calls: it asks its own daemon.
    for words in (("runs", "list"), ("models", "list"), ("runs", "show", job.run_id)):
        assert job.run_id in town.command("delta", *words, "--format", "json").stdout
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


def test_everybody_is_told_who_is_missing(tmp_path: Path) -> None:
    town = topdown_town(tmp_path, rejoin=10.0)
    # An owner is missed when it has not fetched its letter in this time.
    set_line(town.parties["delta"].folder / "party.toml", "request", "3.0")
    try:
        town.start("delta", "north", "south")
        run = town.post(make_job(least_owners=2), "north")
        client = town.client("south")

        def waits() -> bool:
            return "east" in client.status(run).waiting_for

        town.until(waits, "east to be missed")
        town.until_state(run, "done", "delta", "north", "south")
        status = client.status(run)
        assert (status.without, status.waiting_for) == (("east",), ())
        told = town.command("north", "runs", "show", run[:8])
        assert "without east, who did not come" in told.stdout
        for name in ("north", "south", "delta"):
            model = town.model(name, "wards")
            assert model.manifest.members == ("delta", "north", "south")
            # Owners leave out what is beyond the capacity.
            assert "at most 4,000 rows" in model.read_ledger().condition
    finally:
        town.stop()


def test_a_run_is_resumed_at_owners_that_take_no_calls(tmp_path: Path) -> None:
    town = topdown_town(tmp_path)
    try:
        town.start("delta", "north", "south")
        job = make_job(plan={"epsilon": NO_NOISE})
        run = town.post(job, "north")
        town.until_state(run, "accepted", "delta", "north", "south")
        client = town.client("north")
        client.stop(run)
        town.until_state(run, "stopped", "delta", "north", "south")
        client.resume(run)
        town.start("east")
        town.until_state(run, "done", "delta", "north", "south", "east")
        resumed = {"delta": "north", "north": "north", "south": "north"}
        for name, by in resumed.items():
            (row,) = [one for one in RunStore(town.parties[name].state).all() if one.id == run]
            assert row.generation == 1
            fields = RunStore(town.parties[name].state).resumption(row)
            assert fields is not None
            assert (fields["by"], fields["generation"]) == (by, 1)
    finally:
        town.stop()


def test_the_verbs_of_any_other_run(tmp_path: Path) -> None:
    town = topdown_town(tmp_path)
    try:
        town.start()
        job = make_job(plan={"epsilon": NO_NOISE})
        here = Consortium(town.parties["north"].folder)
        run = here.train(town.write(job))
        assert here.wait(run, progress=False).state == "done"
        town.until_state(run, "done")
        check_the_commands(town, job, reference(town, job))
        for name in OWNERS:
            (balance,) = balances_in(town.parties[name].folder)
            assert [c.key for c in balance.spent.charges] == [job.account_key]
            assert balance.spent.epsilon == pytest.approx(job.costs()["public"].epsilon)
        assert not (town.parties["delta"].folder / "state" / "accounts").exists()
    finally:
        town.stop()


def test_no_row_keeps_an_owner_away(tmp_path: Path) -> None:
    """Others have written the domain: who stays away, or says why, has told about its rows."""
    path, absorbed = tmp_path / "rows.csv", AbsorbedRows()
    text = "age,ward,sex,ill\n63,c,m,yes\n500,c,m,no\n30,nowhere,f,no\n,a,f,yes\n20,a,f,perhaps\n"
    path.write_text(text)
    small = DOMAIN.model_copy(update={"capacity": 3})
    table = encoded_table(path, small, absorbed)
    assert table.present.sum() == 3
    told = json.loads(absorbed.to_json())
    assert told["rows without a target"] == 1
    assert told["rows over the capacity"] == 1
    assert told["values"]["age"]["clipped"] == 1
    path.write_text("age,ward,sex,ill\n")
    assert encoded_table(path, DOMAIN, AbsorbedRows()).n_slots == 0
    # Without its columns it is no table of this domain, which no row can change.
    path.write_text("age,ward\n1,a\n")
    refuses(Code.MISSING_COLUMN, lambda: encoded_table(path, DOMAIN, AbsorbedRows()))


def test_the_others_are_not_shown_what_is_wrong_with_a_table(tmp_path: Path) -> None:
    """What a run ends with is everybody's to read, and the first line of a file may be a row."""
    town, job = topdown_town(tmp_path), make_job()
    north = town.parties["north"]
    (town.root / "north.csv").write_text("63,secretly,m,yes\n50,c,m,no\n")
    attempt: Any = SimpleNamespace(ledger=Ledger(), run=job.run_id)
    refused = refuses(Code.MISSING_COLUMN, lambda: TopDownPart(north, job).attend(attempt))
    assert "secretly" not in str(refused)
    assert "worker.log" in refused.fix


def test_another_table_than_at_the_first_attempt_is_refused(tmp_path: Path) -> None:
    state, path = StateFolder(tmp_path / "state"), tmp_path / "rows.csv"

    def table(seed: int) -> Encoded:
        pyarrow.csv.write_csv(people(50, seed), path)
        return encoded_table(path, DOMAIN, AbsorbedRows())

    first = table(1)
    pin_table(state, "wards-1", first)
    pin_table(state, "wards-1", table(1))
    refuses(Code.TABLE_CHANGED, lambda: pin_table(state, "wards-1", table(2)))
    other = encoded_table(path, DOMAIN, AbsorbedRows())
    refuses(Code.TABLE_CHANGED, lambda: pin_table(state, "wards-1", other))
    pin_table(state, "wards-2", other)
    # What is kept of it says nothing about the rows: a digest under a key of its own.
    pin_table(state, "wards-3", other)
    with open_store(state).snapshot() as made:
        rows = [made.row("memories", run=f"wards-{i} table") for i in (1, 2, 3)]
    assert len({row["data"] for row in rows if row is not None}) == 3
