"""Verdicts on claims: one rule for all that were tried in several settings."""

import pytest

from reproduce.report import Verdict, verdict_on


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ([True], "holds"),
        ([True] * 24, "holds"),
        ([True] * 13 + [False] * 11, "holds in part"),
        ([True] * 12 + [False] * 12, "does not hold"),
        ([True] + [False] * 23, "does not hold"),
        ([], "does not hold"),
    ],
)
def test_more_than_half_of_the_settings_is_a_part(settings: list[bool], verdict: Verdict) -> None:
    assert verdict_on(settings) == verdict
