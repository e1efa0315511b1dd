"""What is foreseen of a job, against the meter of one that was run: bytes, rounds, who waits."""

import re
from typing import Any

import numpy as np
import pytest

from bench.estimate import TUNED, UNSEEN, Case, job_of, sites_of
from hedgerow.errors import Code
from hedgerow.net.rehearsal import Rehearsal
from hedgerow.protocols.estimate.traffic import (
    Rehearsed,
    random_sites,
    servers_traffic,
    sites_traffic,
    vertical_traffic,
)
from hedgerow.protocols.pivot.programs import OFFLINE
from hedgerow.protocols.registry import server_protocol
from hedgerow.protocols.run import train
from hedgerow.protocols.sharing.integrate import dealt
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.run import run_vertical
from tests.parties.wire.parties_calls import refuses

SHALLOW = {"epsilon": 1.0, "max_depth": 2}
SERVERS = [
    Case("hidden-tree", 90, 4, 4, SHALLOW),
    Case("hidden-tree", 90, 4, 4, SHALLOW | {"branching": "wary"}),
    Case("hidden-tree", 90, 4, 4, SHALLOW | {"grower": "grouped"}),
    Case("hidden-tree", 90, 4, 4, SHALLOW | {"n_trees": 3}),
    Case("hidden-tree", 90, 4, 4, SHALLOW | {"n_trees": 3, "sampling": "poisson", "rate": 0.5}),
    Case("hidden-tree", 90, 4, 4, SHALLOW | {"n_trees": 3, "noise": "votes", "queries": 5}),
    Case("hidden-tree", 90, 4, 4, {"max_depth": 2, "noise": "none"}),
    Case("open-tree", 90, 4, 4, SHALLOW),
    Case("open-tree", 90, 4, 4, {"max_depth": 2, "noise": "none", "branching": "wary"}),
    Case("hidden-regression", 90, 4, 4, SHALLOW, numeric=True),
    Case("hidden-boosting", 90, 4, 4, SHALLOW | {"n_rounds": 2}),
]
EXACT_PEERS = [
    Case("pivot-tree", 60, 4, 3, {"max_depth": 1, "hide": "thresholds"}, owners=2),
    Case("pivot-logistic", 60, 4, 3, {"max_iter": 2}, owners=2),
    Case("pivot-boosting", 60, 4, 3, {"max_depth": 1, "n_estimators": 2, "hide": "everything"}),
]
NEARLY = [
    Case("pivot-tree", 200, 4, 3, {"max_depth": 2}),
    Case("pivot-tree", 60, 4, 3, SHALLOW | {"noise": "splits+leaves"}),
    Case("pivot-tree", 40, 4, 3, {"max_depth": 1}, align="ring"),
    Case("pivot-tree", 40, 4, 3, {"max_depth": 1}, owners=2, align="hidden"),
    Case("pivot-forest", 200, 4, 3, {"max_depth": 1, "n_estimators": 2}),
]


def compared(case: Case) -> tuple[Rehearsed, Any]:
    foreseen, run = job_of(case)
    return foreseen(), run("simulate")


@pytest.mark.parametrize("case", [*SERVERS, *EXACT_PEERS], ids=str)
def test_each_party_sends_in_each_step_what_was_foreseen(case: Case) -> None:
    foreseen, sent = compared(case)
    assert foreseen.reading.steps == sent.steps
    for step in sent.steps:
        for party in sent.parties:
            at, was = foreseen.reading.at(step, party), sent.at(step, party)
            assert (at.rounds, at.payload) == (was.rounds, was.payload), (step, party)
    assert foreseen.latencies == sent.rounds


@pytest.mark.parametrize("case", NEARLY, ids=str)
def test_among_peers_it_depends_on_whose_attributes_are_chosen(case: Case) -> None:
    foreseen, sent = compared(case)
    assert foreseen.reading.rounds == sent.rounds
    np.testing.assert_allclose(foreseen.reading.payload, sent.payload, rtol=0.05)
    offline = [reading.only(*OFFLINE).payload for reading in (foreseen.reading, sent)]
    assert offline[0] == offline[1]
    assert foreseen.phase(offline=True).payload == offline[0]


@pytest.mark.parametrize("partition", ["rows", "columns"])
def test_uploads_of_several_owners(partition: str) -> None:
    case = Case("hidden-tree", 90, 4, 4, SHALLOW)
    options: Any = server_protocol(case.protocol).options_type.from_table(dict(case.plan))
    plan, joined = options.plan(case.domain), partition == "columns"
    foreseen = servers_traffic(plan, case.protocol, 2, joined=joined)
    kind = "vertical" if joined else "horizontal"
    owners = dealt(plan.layout, case.table(), plan.n_slots, 2, kind)
    run = train(case.protocol, plan, owners)[1]
    assert foreseen.reading.payload == run.meter.payload
    assert foreseen.reading.rounds == run.meter.rounds


@pytest.mark.parametrize("method", ["noisy-counts", "local-rnm", "secure-counts"])
def test_owners_send_as_much_as_in_a_tree_with_as_many_splits(method: str) -> None:
    plan = {"method": method, "epsilon": 40.0, "n_splits": 3, "max_depth": 2}
    case = Case("topdown", 3_000, 4, 4, plan)
    foreseen, sent = compared(case)
    assert foreseen.reading.parties == sent.parties
    assert foreseen.reading.payload == job_of(case)[0]().reading.payload
    np.testing.assert_allclose(foreseen.reading.payload, sent.payload, rtol=0.05)


@pytest.mark.parametrize("cardinality", ["commutative", "secret"])
def test_sites_send_under_a_cipher_that_hides_nothing_what_they_send(cardinality: str) -> None:
    options = VerticalOptions.from_table({"max_depth": 1, "cardinality": cardinality})
    domain = Case("vertical-id3", 150, 3, 2).domain
    whole = options.plan(domain, columns=[[0], [1, 2]], class_at=0, align=True)
    plan = Session(whole.job, {}, whole.secret)
    tables = random_sites(plan, [[2], [2, 2]], 150)
    foreseen, run = sites_traffic(plan, tables), run_vertical(plan, tables)
    # Messages say numbers in as many digits as they take.
    np.testing.assert_allclose(foreseen.reading.payload, run.sent.payload, rtol=0.01)
    assert foreseen.reading.rounds == run.sent.rounds
    done = sum(
        site.meter.encryptions + site.meter.comparisons + site.meter.alignment for site in run.sites
    )
    assert foreseen.work["encryptions"] == done
    assert len(run.sites) < foreseen.latencies <= sum(site.meter.messages for site in run.sites) * 9


@pytest.mark.parametrize(
    "case", [one for one in (*TUNED, *UNSEEN) if one.protocol == "vertical-id3"], ids=str
)
def test_what_sites_send_is_in_the_range_that_is_named(case: Case) -> None:
    plan, values, tables = sites_of(case)
    note = vertical_traffic(plan, values, case.n).note
    found = re.search(r"from ([\d.]+) to ([\d.]+) MB", note)
    assert found is not None
    least, most = map(float, found.groups())
    sent = sum(sites_traffic(plan, tables).reading.payload) / 1e6
    # Two decimals, and messages say numbers in as many digits as they take.
    assert 0.99 * least - 0.005 < sent < 1.01 * most + 0.005


def test_ten_times_the_rows_are_ten_times_the_bytes_and_a_few_rounds_more() -> None:
    few, many = (
        job_of(Case("hidden-tree", n, 4, 4, SHALLOW))[0]().reading for n in (70_000, 700_000)
    )
    np.testing.assert_allclose(np.divide(many.payload, few.payload), 10, rtol=0.05)
    assert 0 <= many.rounds - few.rounds < 50


def test_nobody_writes_mail_where_nobody_lives() -> None:
    network = Rehearsal(3, lambda name, shape: np.zeros(shape))
    assert refuses(Code.BAD_PLAN, lambda: network.post("ask", 0, 1, b"hello")).found
