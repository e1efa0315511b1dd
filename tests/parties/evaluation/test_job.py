"""Jobs that evaluate models, without servers."""

from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.evaluation.job import EvaluationJob, propose
from hedgerow.parties.runs.jobs import read_job
from hedgerow.parties.store.models import ModelManifest
from hedgerow.protocols.hidden.evaluation import EvaluationOptions
from hedgerow.protocols.hidden.options import plan_boosting, plan_hidden, plan_regression
from hedgerow.tables import Target
from tests.parties.roles.upload_servers import DOMAIN
from tests.parties.wire.parties_calls import refuses

NUMBERS = DOMAIN.model_copy(update={"target": Target(name="ill", bounds=(0.0, 1.0))})
THREE = DOMAIN.model_copy(update={"target": Target(name="ill", classes=("a", "b", "c"))})
FIGURES = [
    {"id": "south-1", "population": "guests", "slots": 60},
    {"id": "north-2", "population": "guests", "slots": 40},
]
HALF = EvaluationOptions(epsilon=0.5)


def manifest(plan: Any, protocol: str = "hidden-tree", **changes: Any) -> ModelManifest:
    fields = {"run": "ward-0", "job": "0" * 64, "tag": "", "analysts": ("zoe",)} | changes
    return ModelManifest(
        name="ward-model", protocol=protocol, server=0, plan=plan.to_dict(), **fields
    )


def proposed(made: ModelManifest, **options: Any) -> EvaluationJob:
    return propose(made, FIGURES, HALF, analyst="zoe", **options)


def test_a_job_follows_from_public_figures() -> None:
    tree = manifest(plan_hidden(DOMAIN, noise="none", depth=2))
    job = proposed(tree)
    assert (job.slots, job.places, job.boundary) == (100, 2, 1)
    assert job.name == "ward-model-on-south-1-north-2"
    assert (job.population, job.uploads) == ("guests", ("south-1", "north-2"))
    job.check_model(tree)
    assert read_job(job.to_toml()) == job
    assert proposed(tree).run_id == job.run_id != proposed(tree, name="again").run_id
    columns = propose(tree, FIGURES[:1], HALF, analyst="zoe", partition="vertical")
    assert (columns.slots, columns.partition) == (60, "vertical")
    assert job.costs()["analyst"].epsilon == 0.5
    exact = propose(tree, FIGURES, EvaluationOptions(noise="none"), analyst="zoe")
    assert exact.costs()["analyst"].epsilon == float("inf")


def test_more_classes_have_no_boundary() -> None:
    tree = manifest(plan_hidden(THREE, noise="none", depth=2))
    job = proposed(tree)
    assert (job.places, job.boundary) == (3, None)
    assert read_job(job.to_toml()) == job
    job.check_model(tree)


@pytest.mark.parametrize(
    "made",
    [
        manifest(plan_regression(NUMBERS, noise="none", depth=1), "hidden-regression"),
        manifest(plan_boosting(NUMBERS, noise="none", depth=1, n_rounds=1), "hidden-boosting"),
        manifest(
            plan_hidden(DOMAIN, noise="votes", epsilon=1.0, n_trees=4, depth=1, queries=5),
        ),
        manifest(plan_hidden(DOMAIN, noise="none", depth=1), "open-tree"),
    ],
    ids=["numbers", "boosted numbers", "votes", "published"],
)
def test_models_that_cannot_be_evaluated(made: ModelManifest) -> None:
    refuses(Code.BAD_PARAMETER, lambda: proposed(made))


def test_what_is_not_the_model() -> None:
    tree = manifest(plan_hidden(DOMAIN, noise="none", depth=2))
    job = proposed(tree)
    other = manifest(plan_hidden(THREE, noise="none", depth=2))
    refuses(Code.BAD_JOB, lambda: job.check_model(other))
    refuses(
        Code.CALLER_NOT_ALLOWED,
        lambda: job.check_model(manifest(plan_hidden(DOMAIN, noise="none", depth=2), analysts=())),
    )
    for change in ({"places": 0}, {"slots": 0}, {"plan": {"epsilon": 1.0, "noise": "none"}}):
        with pytest.raises(HedgerowError, match="H885"):
            EvaluationJob.read(job.to_dict() | change, "it")
    for change in ({"plan": {}}, {"domain": NUMBERS.to_dict()}, {"analysts": []}):
        with pytest.raises(HedgerowError, match="H885"):
            EvaluationJob.read(job.to_dict() | change, "it")
