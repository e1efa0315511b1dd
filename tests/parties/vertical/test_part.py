"""Vertical ID3 between processes: the tree of one process, in pieces, charged once at a site."""

import json
import math
from pathlib import Path

import numpy as np

from hedgerow.errors import Code
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.vertical.part import own_columns, read_rows
from hedgerow.parties.wire.client import call_member
from tests.parties.towns import json_of
from tests.parties.vertical.site_towns import SERVERS, SITES, VerticalTown, make_job
from tests.parties.wire.parties_calls import refuses

YES, NO = 9, 1
"""Days of the paper's table."""


def check_charged_once(town: VerticalTown, job, names) -> None:
    for name in names:
        (balance,) = balances_in(town.parties[name].folder)
        assert [c.key for c in balance.spent.charges] == [job.account_key], name
        assert math.isinf(balance.spent.epsilon)


def test_the_tree_is_that_of_one_process_and_sites_ask_it(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path, queries_per_model=5, queries_per_analyst=3)
    try:
        town.start()
        job = make_job()
        run = town.post(job, "office")
        town.until_state(run, "done")
        expected = town.check_tree(job)
        check_charged_once(town, job, SITES)
        # How many messages there were says how large the tree is, and where.
        for told in town.client("office").show(run).values():
            assert told.progress.event == "done"
            assert told.progress.bytes is told.progress.rounds is None
        before = town.model("office", "tennis").ledger
        asked = json_of(
            town.command(
                *("office", "query", "tennis", "--id", YES, "--id", NO),
                *("--proba", "--format", "json"),
            )
        )
        assert [(row["id"], row["class"]) for row in asked["rows"]] == [("9", "yes"), ("1", "no")]
        leaves = {
            tuple(np.array(node.counts) / sum(node.counts))
            for node in expected.sites[0].nodes.values()
            if hasattr(node, "counts")
        }
        assert {(row["p(no)"], row["p(yes)"]) for row in asked["rows"]} <= leaves
        fetched = town.command("office", "models", "fetch", "tennis")
        assert Code.BAD_PARAMETER.number in fetched.stderr
        assert "which nobody sees: it lies in pieces with" in " ".join(fetched.stderr.split())
        # An instance that one site has alone: the asker is not told where the path ended.
        lost = town.command("club", "query", "tennis", "--id", 98)
        assert Code.IDS_DO_NOT_ALIGN.number in lost.stderr
        assert "observatory" not in lost.stderr
        check_files(town, tmp_path)
        # Every site counts the rows of all, and of each.
        more = town.command("office", "query", "tennis", "--id", YES, "--id", NO)
        assert Code.POLICY_REFUSES.number in more.stderr
        assert "queries_per_analyst" in more.stderr
        shown = json_of(town.command("office", "models", "show", "tennis", "--format", "json"))
        assert {row["analyst"]: row["asked"] for row in shown["asking"]} == {"office": 2, "club": 3}
        assert {row["audience"] for row in shown["learned"]} >= {"public", "site 2"}
        assert all(math.isinf(float(r["epsilon"])) for r in shown["learned"])
        # Of setting up and of growing: a name may be in both.
        opened = [row["name"] for row in shown["opened"]]
        assert opened == [one.name for part in expected.sites[2].leakages for one in part.openings]
        # What questions show is in the ledger of the run, which is not the model's text.
        assert town.model("office", "tennis").ledger == before
        with open_store(town.parties["office"].state).snapshot() as made:
            lines = [row["line"] for row in made.rows("ledger_lines", run=run)]
        assert len({json.dumps(json.loads(line), sort_keys=True) for line in lines}) == len(lines)
        # Nothing of a site's nodes is told to another.
        for reply in (
            call(town, "models", {"model": "tennis"}),
            call(town, "model-show", {"model": "tennis"}),
        ):
            assert b"outlook" not in reply.payload
            assert b"S1L" not in reply.payload
            assert b"token" not in reply.payload
    finally:
        town.stop()


def check_files(town: VerticalTown, folder: Path) -> None:
    """Ask about a file of instances, one of which is there twice, by a column of ids."""
    rows, out = folder / "rows.csv", folder / "answers.csv"
    rows.write_text(f"day,note\n{NO},a\n{YES},b\n{NO},c\n")
    # By default the column that the site's own table has.
    refused = town.command("club", "query", "tennis", rows, "--out", out)
    assert Code.MISSING_COLUMN.number in refused.stderr
    rows.write_text(rows.read_text().replace("day", "id"))
    done = town.command("club", "query", "tennis", rows, "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"3 rows: {out}" in done.stdout
    assert out.read_text() == f'"id","class"\n{NO},"no"\n{YES},"yes"\n{NO},"no"\n'


def call(town: VerticalTown, verb: str, fields):
    config = town.parties["office"]
    return call_member(config, config.member("club"), verb, fields)


def test_secret_counts_and_a_site_that_is_killed(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path, secret=True)
    try:
        town.start()
        job = make_job(cardinality="secret", answers_to="class site")
        run = town.post(job, "observatory")
        state = town.parties["observatory"].state

        def heard() -> int:
            with open_store(state).snapshot() as made:
                return made.count_heard(run)

        town.until(lambda: heard() > 5, "the observatory to hear of others")
        town.kill("observatory")
        town.start("observatory")
        town.until_state(run, "done")
        town.check_tree(job)
        check_charged_once(town, job, (*SITES, *SERVERS))
        for name in SERVERS:
            assert town.client("club").show(run)[name].state == "done"
        asked = town.command("office", "query", "tennis", "--id", YES)
        assert asked.returncode == 0, asked.stderr
        assert "keeps the answers" in asked.stderr
        kept = json_of(town.command("club", "query", "tennis", "--kept", "--format", "json"))
        assert [(row["id"], row["class"]) for row in kept["rows"]] == [(9, "yes")]
    finally:
        town.stop()


def test_what_a_site_lacks(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path)
    job, office = make_job(), town.parties["office"]
    keep_own_table(office.state, OwnTable("days", town.files.table("office")))
    refused = refuses(Code.NO_TABLE_HERE, lambda: own_columns(office, job))
    assert "--ids" in refused.fix
    keep_own_table(
        office.state,
        OwnTable("days", town.files.table("office"), "id", town.files.domain("office")),
    )
    table, own = own_columns(office, job)
    rows = town.files.table("office").read_text()
    town.files.table("office").write_text(rows.replace('"mild"', '"secretly warm"'))
    refused = refuses(Code.UNKNOWN_CATEGORY, lambda: read_rows(own, table, "office"))
    assert "secretly" not in str(refused)


def test_a_site_that_stops_and_resumes_a_run_takes_part_again(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path)
    try:
        town.start()
        job = make_job()
        run, client = town.post(job, "office"), town.client("office")
        client.stop(run)
        town.until_state(run, "stopped")
        client.resume(run)
        town.until_state(run, "done")
        town.check_tree(job)
    finally:
        town.stop()
