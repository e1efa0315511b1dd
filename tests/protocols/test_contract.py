"""Options: one declaration, two kinds of refusals, one table of reference."""

from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
import pytest
from pydantic import Field, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.contract import AtLeastOne, Auto, Epsilon, Options, Rate, Share


class Sample(Options):
    parameter_names = {"n_trees": "n_estimators"}

    noise: Literal["none", "leaves"] = Field("leaves", description="Where noise is added.")
    epsilon: Epsilon | None = Field(None, description="Budget.")
    n_trees: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="Trees.")
    max_depth: Auto | AtLeastOne = Field("auto", description="Levels.")
    rate: Auto | Rate = Field("auto", description="Of the sample.")
    split_share: Share = Field(0.7, description="Of epsilon.")
    delta: float = Field(0.0, ge=0, lt=1, description="In all.")
    random_splits: bool = Field(False, description="By coins.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.random_splits and self.n_trees == 1:
            raise Code.BAD_PARAMETER.error(expected="several trees", found="n_trees=1", fix="grow")
        return self


def test_an_estimators_numbers_are_taken_for_what_they_are() -> None:
    given = {"epsilon": np.float32(1), "n_estimators": np.int8(3), "split_share": Fraction(1, 2)}
    made = Sample.from_parameters(given | {"engine": "simulate"})
    assert (made.epsilon, made.n_trees, made.split_share) == (1.0, 3, 0.5)
    assert type(made.n_trees) is int


def test_an_epsilon_that_nothing_uses_is_checked_and_left_out() -> None:
    assert Sample.from_parameters({"epsilon": 2.0, "noise": "none"}).epsilon is None
    with pytest.raises(HedgerowError, match="leave epsilon out") as refused:
        Sample.from_parameters({"epsilon": 0, "noise": "none"})
    assert refused.value.code is Code.BAD_EPSILON


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), 10**400, True, "1", None])
def test_bad_epsilons_of_estimators_have_their_own_number(epsilon: Any) -> None:
    with pytest.raises(HedgerowError) as refused:
        Sample.from_parameters({"epsilon": epsilon, "noise": "leaves"})
    assert refused.value.code is Code.BAD_EPSILON
    assert refused.value.found == f"epsilon={epsilon!r}"


@pytest.mark.parametrize(
    ("given", "expected", "found", "fix"),
    [
        ({"noise": "all"}, "noise as one of 'none', 'leaves'", "noise='all'", None),
        (
            {"n_estimators": 2.5},
            "n_estimators must be a whole number from 1 to 1,000",
            "n_estimators=2.5",
            "correct n_estimators",
        ),
        (
            {"max_depth": 0},
            "max_depth must be 'auto' or a whole number of at least 1",
            "max_depth=0",
            "correct max_depth",
        ),
        (
            {"rate": 2},
            "rate must be 'auto' or a number above 0 and at most 1",
            "rate=2",
            "correct rate",
        ),
        (
            {"split_share": 1},
            "split_share must lie strictly between 0 and 1",
            "split_share=1",
            "correct split_share",
        ),
        ({"delta": 1.0}, "delta must lie in [0, 1)", "delta=1.0", "correct delta"),
        (
            {"random_splits": 1},
            "random_splits must be True or False",
            "random_splits=1",
            "correct random_splits",
        ),
        ({"random_splits": True}, "several trees", "n_trees=1", "grow"),
    ],
)
def test_estimators_are_told_what_was_expected(
    given: dict[str, Any], expected: str, found: str, fix: str | None
) -> None:
    with pytest.raises(HedgerowError) as refused:
        Sample.from_parameters(given)
    error = refused.value
    assert (error.code, error.expected, error.found) == (Code.BAD_PARAMETER, expected, found)
    assert error.fix == (fix or Code.BAD_PARAMETER.spec.fix)


def test_a_table_is_refused_as_a_job_is() -> None:
    with pytest.raises(HedgerowError, match="n_estimators: no such key is known") as refused:
        Sample.from_table({"n_estimators": 3})
    assert refused.value.code is Code.BAD_JOB
    with pytest.raises(HedgerowError, match="epsilon: Input should be greater than 0"):
        Sample.from_table({"epsilon": -1.0})


def test_the_reference_has_a_row_for_every_field() -> None:
    rows = {row.key: row for row in Sample.reference()}
    assert list(rows) == list(Sample.model_fields)
    assert rows["n_trees"] == (
        "n_trees",
        "n_estimators",
        "a whole number from 1 to 1,000",
        "1",
        "Trees.",
    )
    assert rows["delta"].values == "a number of at least 0 and below 1"
