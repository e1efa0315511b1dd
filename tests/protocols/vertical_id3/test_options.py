"""Options of vertical ID3: checked once, for estimators and for jobs."""

from typing import Any

import pytest

from hedgerow import VerticalID3Classifier
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from tests.protocols.vertical_id3.ppid3_runs import WEATHER


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"max_depth": 0}, Code.BAD_PARAMETER),
        ({"ring": "some"}, Code.BAD_PARAMETER),
        ({"answers_to": "all"}, Code.BAD_PARAMETER),
        ({"cardinality": "plain"}, Code.BAD_PARAMETER),
        ({"epsilon": 0.0}, Code.BAD_EPSILON),
        ({"epsilon": 1.0}, Code.BAD_SITES),
    ],
)
def test_what_makes_no_run_is_refused_in_estimators_and_in_jobs(
    given: dict[str, Any], code: Code
) -> None:
    with pytest.raises(HedgerowError) as caught:
        VerticalOptions.from_parameters(given)
    assert caught.value.code is code
    with pytest.raises(HedgerowError) as caught:
        VerticalOptions.from_table(given)
    assert caught.value.code is (code if code is Code.BAD_SITES else Code.BAD_JOB)


def test_estimators_and_jobs_have_the_fields_and_defaults_of_the_options() -> None:
    defaults = VerticalID3Classifier().get_params()
    for name, field in VerticalOptions.model_fields.items():
        assert defaults[name] == field.default
        assert VerticalJob.model_fields[name].default == field.default
    assert all(row.description for row in VerticalOptions.reference())


def test_a_plan_needs_classes() -> None:
    with pytest.raises(HedgerowError) as caught:
        VerticalOptions().plan(WEATHER.select(WEATHER.names, target=False))
    assert caught.value.code is Code.BAD_TARGET
