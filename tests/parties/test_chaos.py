"""Servers that are killed at random moments: two seeded runs of `bench.consortium_chaos`."""

from pathlib import Path

import pytest

from bench.consortium_chaos import EXACT, Fault, Outcome, audit, chaos
from bench.consortium_parties import SERVERS, Consortium, consortium

RUNS = 2


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory):
    with consortium(tmp_path_factory.mktemp("chaos"), step=5.0) as made:
        yield made


@pytest.fixture(scope="module")
def found(town: Consortium) -> dict:
    return chaos(town, RUNS, 0)


def test_every_run_ends_as_an_undisturbed_one_or_with_a_number(found: dict) -> None:
    assert found["wrong"] == []
    assert found["finished"] + found["ended_with_a_number"] == found["runs"] == RUNS


def test_faults_follow_their_seeds(town: Consortium) -> None:
    spans = {"training": 8.0, "queries": 1.0}
    faults = [str(Fault(town, seed, spans)) for seed in range(30)]
    assert faults == [str(Fault(town, seed, spans)) for seed in range(30)]
    for text in (*SERVERS, "training", "queries"):
        assert sum(text in fault for fault in faults) >= 5


def test_the_audit_finds_what_is_lost_and_what_is_doubled(town: Consortium, found: dict) -> None:
    assert not found["wrong"]
    job, ledger = town.job("exact", **EXACT), town.ledger(SERVERS[0], _run(town))
    assert audit(town, job, Outcome(), ledger) == []
    assert audit(town, job, Outcome(), ledger * 2) != []
    journals: list[Path] = [
        town.parties["birch"].folder / "state" / name
        for name in ("accounts/patients.jsonl", "queries/exact/journal.jsonl")
    ]
    for journal in journals:
        text = journal.read_text()
        lines = text.splitlines(keepends=True)
        # As the audit reads them; a server would refuse both.
        for other in (lines[:1], lines + lines[1:]):
            journal.write_text("".join(other))
            try:
                assert audit(town, job, Outcome(), ledger) != []
            finally:
                journal.write_text(text)


def _run(town: Consortium) -> str:
    return town.job("exact", **EXACT).run_id
