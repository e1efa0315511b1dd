"""Median forests under attack: the paper claims less than its releases cost."""

import pytest

from hedgerow.audit.catalogue.median import median_forests


def test_the_ledger_counts_each_of_five_medians() -> None:
    target = next(one for one in median_forests() if "broken-paper-medians" in one.name)
    # 1.96 for five medians, where the ledger counts 1.96 each, and 2.04 for the rest.
    assert target.claimed == 4.0
    assert target.holds == pytest.approx(5 * 1.96 + 2.04)
