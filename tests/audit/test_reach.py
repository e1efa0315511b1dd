"""How near the attacks come, for every private estimator and audience, as the page says."""

import re
from pathlib import Path

import pytest

from hedgerow.audit import AuditTarget, audit, targets
from hedgerow.privacy import NoiseSource

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit.md"
ROW = re.compile(
    r"^\| `([^`]+)` \| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|(.*)\|$"
)
TIGHT = 0.8
HALF = 0.5


def attacked_targets() -> dict[str, AuditTarget]:
    """Return those that give something away: of a view that must say nothing there is no share."""
    known = targets(sound=True)
    return {t.name: t for t in known if t.kind != "mechanism" and t.claimed > 0}


TARGETS = attacked_targets()
TABLE = {found[1]: found for line in PAGE.read_text().splitlines() if (found := ROW.match(line))}


def test_the_page_has_every_target_and_says_what_is_out_of_reach() -> None:
    assert sorted(TABLE) == sorted(TARGETS)
    for name, row in TABLE.items():
        proven, attacked, estimate, reached = (float(row[i]) for i in (3, 4, 5, 6))
        assert proven == pytest.approx(TARGETS[name].holds, rel=0.005)
        assert attacked <= proven
        assert reached == pytest.approx(max(attacked, estimate) / proven, abs=0.01)
        assert reached >= TIGHT or row[7].strip(), name
    short = {name for name, row in TABLE.items() if float(row[6]) < HALF}
    assert short <= {"hidden-boosting/logistic@1"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_the_page_says_what_the_audits_find(name: str) -> None:
    result = audit(TARGETS[name], source=NoiseSource.insecure_seeded(12))
    assert not result.refuted
    few = result.runs < 10_000
    told = float(TABLE[name][6])
    assert result.estimate / result.proven > (0.6 if few else 0.8) * min(told, 1.0)
