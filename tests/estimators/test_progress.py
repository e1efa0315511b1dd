"""Progress: what is shown while a forest grows, and that it changes nothing."""

import io

import numpy as np
import pytest
from rich.console import Console

from hedgerow import Attribute, Domain, Ledger, MedianForestClassifier, Target
from hedgerow.estimators.progress import shown
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.tables import encode
from hedgerow.trees.counts.forest import ForestCounts, LocalCounts

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=50),
        Attribute(name="dose", kind="numeric", bounds=(0, 1), bins=20),
    ),
    target=Target(name="ill", classes=(0, 1)),
    capacity=1000,
)
ROWS = np.column_stack([np.arange(500) % 100, np.arange(500) % 7 / 7])
ILL = (ROWS[:, 0] > 60).astype(int)
PLAN = MedianForestClassifier(1.0, DOMAIN, n_estimators=2, max_depth=3, max_features=2).plan(DOMAIN)


def grown(verbose: int, console: Console):
    counts = LocalCounts([PLAN.batch(encode(ROWS, DOMAIN, ILL))])
    with shown(counts, PLAN.depth, verbose, console) as watched:
        assert isinstance(watched, ForestCounts)
        source = NoiseSource.insecure_seeded(3)
        return grow_median_forest(watched, PLAN, ledger=Ledger(), source=source)


def test_levels_are_shown_and_change_nothing() -> None:
    screens = [io.StringIO(), io.StringIO()]
    consoles = [Console(file=screen, force_terminal=True, width=80) for screen in screens]
    assert grown(0, consoles[0]) == grown(1, consoles[1])
    quiet, text = (screen.getvalue() for screen in screens)
    assert quiet == ""
    assert "leaves" in text


def test_the_line_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        "rich.progress.Progress.update", lambda self, task, **what: seen.append(what)
    )
    grown(1, Console(file=io.StringIO()))
    done = [what["completed"] for what in seen if "completed" in what]
    assert done == [1, 2, 3, 4, 5]
    texts = [what["description"] for what in seen if "description" in what]
    assert texts[0] == "level 1 of 3: medians"
    assert "level 3 of 3: choosing attributes" in texts
    assert texts[-1] == "leaves"
