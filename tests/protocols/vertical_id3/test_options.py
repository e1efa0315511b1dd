"""Options of vertical ID3: checked once, and a plan that says what sites declare and charge."""

from typing import Any

import pytest

from hedgerow import VerticalID3Classifier
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.protocols.contract import Plan
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.protocols.vertical_id3.secret.session import ALL_SERVERS
from hedgerow.protocols.vertical_id3.site import Site
from tests.protocols.vertical_id3.ppid3_runs import DAYS, PAPER, WEATHER, grown, sites_of, weather
from tests.protocols.vertical_id3.secret.secret_runs import secret


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


def declared(sites: list[Site]) -> list[dict[str, Any]]:
    return [vars(one) for site in sites for leakage in site.leakages for one in leakage.openings]


@pytest.mark.parametrize("job", [{}, {"align": True}, {"epsilon": 2.0, "max_depth": 2}])
def test_a_plan_opens_what_sites_declare(job: dict[str, Any]) -> None:
    sites = sites_of(weather(), PAPER, class_at=0, **job)
    grown(sites)
    align = job.pop("align", False)
    plan = VerticalOptions(**job).plan(WEATHER, 14, columns=PAPER, class_at=0, align=align)
    assert isinstance(plan, Plan)
    assert [vars(one) for one in plan.openings()] == declared(sites)


@pytest.mark.parametrize("job", [{}, {"epsilon": 20.0, "max_depth": 2}])
def test_a_plan_opens_what_sites_and_servers_declare_on_shares(job: dict[str, Any]) -> None:
    run = secret(weather(), PAPER, 0, engine="clear", **job)
    options = VerticalOptions(cardinality="secret", **job)
    openings = options.plan(WEATHER, 14, columns=PAPER, class_at=0).openings()
    own = declared(run.sites)
    assert [vars(one) for one in openings[: len(own)]] == own
    assert {one.name for one in openings[len(own) :] if one.audience == ALL_SERVERS} == {
        row["name"] for row in run.learned
    }


@pytest.mark.parametrize("cardinality", ["commutative", "secret"])
@pytest.mark.parametrize("epsilon", [None, 20.0])
def test_an_estimator_charges_its_plan(cardinality: str, epsilon: float | None) -> None:
    rows, labels = [day[:4] for day in DAYS], [day[4] for day in DAYS]
    given = {"cardinality": cardinality, "epsilon": epsilon, "max_depth": 2}
    model = VerticalID3Classifier(class_at=0, domain=WEATHER, **given).fit(rows, labels)
    plan = VerticalOptions(**given).plan(WEATHER, 14, columns=PAPER, class_at=0)
    assert model.privacy_.releases == tuple(plan.releases())


def test_a_plan_as_plain_data() -> None:
    plan = VerticalOptions(max_depth=3).plan(WEATHER, 14, columns=PAPER, class_at=0)
    assert plan.to_dict()["job"]["max_depth"] == 3
    assert plan.to_dict()["sites"][1] == {"values": (2, 2), "classes": 0, "records": 14}
    with pytest.raises(HedgerowError) as caught:
        VerticalOptions().plan(WEATHER.select(WEATHER.names, target=False))
    assert caught.value.code is Code.BAD_TARGET
