"""What the error of a request says about a site."""

import pytest

from hedgerow.errors import Code
from hedgerow.parties.sites.status import lost
from tests.parties.sites.site_town import make_job

JOB = make_job()


@pytest.mark.parametrize(
    "code", [Code.SERVICE_UNREACHABLE, Code.REQUEST_CUT_OFF, Code.SERVICE_STOPPING]
)
def test_a_site_that_is_not_reached_is_lost(code: Code) -> None:
    error = lost("office", code.error(found="Connection refused"), JOB)
    assert error.code is Code.SITE_LOST
    assert error.found == "office is not reached: Connection refused"


def test_a_site_that_knows_nothing_of_the_attempt_was_started_again() -> None:
    said = Code.WRONG_RUN_STATE.error(found="nothing")
    # What this site itself says of its state is another matter.
    assert lost("office", said, JOB) is said
    said.party = "office"
    assert "office was started again" in lost("office", said, JOB).found


def test_what_a_site_refuses_for_a_reason_stays() -> None:
    said = Code.SITE_CONTRADICTS.error(found="a set of site club")
    said.party = "office"
    assert lost("office", said, JOB) is said
