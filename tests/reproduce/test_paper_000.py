"""The reproduction of paper 000: its small version runs, and says what it measured."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hedgerow.protocols.hidden.predict import predict
from reproduce.paper_000 import findings, protocol, study
from tests.protocols.sharing.shared_tables import shared_queries
from tests.reproduce.small_version import check_figure, small_version

FIGURES = (2, 3, 4, 5, 6)


@pytest.fixture(scope="module")
def done(
    dataset: Callable[[str], pa.Table], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Run the small version once; skip where the data set is absent."""
    dataset("heart_cleveland")
    return small_version("000", tmp_path_factory.mktemp("reproduced"))


def test_the_printed_object(done: dict[str, Any]) -> None:
    assert {"seed", "quick", "machine", "rows", "findings", "checks", "notes", "files"} <= set(done)
    assert {"case", "ours"} <= set(done["rows"][0])
    compared = [row for row in done["rows"] if row["case"].startswith("figure 2, heart")]
    assert [row["paper"] for row in compared] == [0.71, 0.575, 0.71, 0.572]


@pytest.mark.parametrize("number", FIGURES)
def test_figures_are_drawn_and_written(number: int, done: dict[str, Any]) -> None:
    check_figure(done["out"] / f"figure_{number}.svg", done["made"])
    figure = json.loads((done["out"] / f"figure_{number}.json").read_text())
    assert figure["figure"] == number
    assert figure["notes"]
    points = [p for panel in figure["panels"] for c in panel["curves"] for p in c["points"]]
    assert points
    if number != 5:
        assert all(0 <= p["mean"] <= 1 and 0 <= p["sd"] <= 1 for p in points)
        assert all(p["runs"] >= len(p["splits"]) >= 1 for p in points)
    else:
        assert all(p["mean"] > 0 for p in points)


def test_proven_epsilons_are_those_of_the_ledger(done: dict[str, Any]) -> None:
    figure = json.loads((done["out"] / "figure_2.json").read_text())
    curves = {c["method"]: c["points"] for p in figure["panels"][:1] for c in p["curves"]}
    assert all(p["proven"] is None for p in curves["leaves laplace"] + curves["none"])
    for method in findings.SOUND:
        assert all(p["proven"] == pytest.approx(p["x"]) for p in curves[method])
    # One answer of votes costs epsilon.
    assert all(p["proven"] == pytest.approx(p["x"]) for p in curves["votes"])
    assert all(p["proven"] == pytest.approx(p["x"] / study.MANY) for p in curves["votes many"])


def test_findings_say_what_survives(done: dict[str, Any]) -> None:
    text = " ".join(done["findings"])
    for words in ("survive sound accounting", "no finite ε", "votes reach", "Laplace", "forests"):
        assert words in text
    assert all(finding.endswith(".") for finding in done["findings"])


def test_three_servers_agree(done: dict[str, Any]) -> None:
    assert len(done["checks"]) == 7
    assert all(check["same"] for check in done["checks"])
    exact = [check for check in done["checks"] if "no noise" in check["case"]]
    assert exact[0]["clear"] == exact[0]["servers"]


def test_the_same_seeds_give_the_same_numbers(done: dict[str, Any]) -> None:
    records = json.loads((done["out"] / "runs.json").read_text())["records"]
    for job in (("quiet", "heart", 1, 3), ("noisy", "heart", 1, 0.2, 2), ("votes", "heart", 0)):
        again = study.run_job(job, study.QUICK)
        assert again
        assert all(record in records for record in again)


@pytest.mark.parametrize("branching", ["wary", "binary"])
def test_a_lookup_is_what_the_protocol_answers(
    branching: str, dataset: Callable[[str], pa.Table]
) -> None:
    dataset("heart_cleveland")
    part = study.part_of("heart", 0)
    plan = study.auto_plan(part, 5.0, branching)
    structure = protocol.Structure.of(plan, part, 3)
    model = structure._model(plan, study_ledger(structure), 4)
    queries = shared_queries(model.engine, plan.layout, model.ring, part.test)
    found = protocol.lookup(model, part.test.bins)
    np.testing.assert_array_equal(found, predict(model, queries).data)


def study_ledger(structure: protocol.Structure) -> Any:
    return protocol.Ledger.from_json(structure.charged)


def test_more_noise_calls_for_more_voters() -> None:
    assert study.voters(720, 2.0) <= study.voters(720, 0.2)
    # Never so many that a tree has no records to learn from.
    assert study.voters(240, 1e-6) <= 240 / 8
