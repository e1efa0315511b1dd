"""`estimator.report(path)`: one page for every kind of estimator."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import (
    Attribute,
    CARTRegressor,
    Domain,
    ID3Classifier,
    PivotBoostingClassifier,
    PivotForestClassifier,
    PivotLogisticRegression,
    PivotTreeClassifier,
    Target,
    TopDownTreeClassifier,
    VerticalID3Classifier,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.reports.estimator import facts_of_estimator
from tests.estimators.private_models import CLASSES, NUMBERS, PRIVATE, small_model, small_rows
from tests.reports.pages import check_figures, check_pages, text_of

TWO_BITS = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=(0, 1)) for name in ("left", "right")
    ),
    target=Target(name="y", classes=(0, 1)),
)
OTHERS: list[tuple[type, dict[str, Any]]] = [
    (ID3Classifier, {}),
    (CARTRegressor, {}),
    (VerticalID3Classifier, {}),
    (PivotTreeClassifier, {"max_depth": 1}),
    (PivotTreeClassifier, {"max_depth": 1, "hide": "thresholds"}),
    (PivotForestClassifier, {"max_depth": 1, "n_estimators": 2}),
    (PivotBoostingClassifier, {"max_depth": 1, "n_estimators": 2, "hide": "everything"}),
    (PivotLogisticRegression, {"max_iter": 1}),
    (PivotLogisticRegression, {"max_iter": 1, "hide": "weights"}),
]
MODELS = [*((kind, None) for kind in PRIVATE), *OTHERS]


@pytest.fixture(scope="module")
def fitted() -> list[Any]:
    """One of every kind; so few rows that the noise is said to drown some."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        return list(fit_all())


def fit_all() -> Iterator[Any]:
    for kind, parameters in MODELS:
        if parameters is None:
            model = small_model(kind)
        else:
            model = kind(domain=NUMBERS if kind is CARTRegressor else CLASSES, **parameters)
        yield model.fit(*small_rows(kind))
    rows, labels = small_rows(ID3Classifier)
    secret = TopDownTreeClassifier(
        1.0, CLASSES, n_splits=1, max_depth=1, method="secure-counts", engine="clear"
    )
    yield secret.fit_owners(np.split(rows, 2), np.split(labels, 2))


def test_a_page_says_what_the_estimator_knows(fitted: list[Any], tmp_path: Path) -> None:
    pages = []
    for number, model in enumerate(fitted):
        page = model.report(tmp_path / f"{number}-{type(model).__name__}.html")
        text = page.read_text()
        ledger = getattr(model, "privacy_", None)
        if ledger is None:
            assert "<strong>No finite epsilon.</strong>" in text
        else:
            check_figures(text, ledger)
        facts = facts_of_estimator(model)
        learned = getattr(model, "what_was_learned_", None)
        if isinstance(learned, Mapping):
            assert [len(part.rows) for part in facts.openings] == list(map(len, learned.values()))
        # Among sites with an epsilon bytes tell the number of rows.
        hidden = isinstance(model, VerticalID3Classifier) and model.epsilon is not None
        assert not hidden or not facts.costs
        for name in ("meter_", "offline_", "online_", "server_traffic_"):
            reading = None if hidden else getattr(model, name, None)
            if reading is not None:
                total = sum(reading.payload)
                assert total in [cost.total.payload for cost in facts.costs]
        assert (facts.setting in ("clear", "holder")) == ("played by one person" not in text)
        pages.append(page)
    assert len(pages) == len(MODELS) + 1
    check_pages(pages)


@pytest.mark.parametrize("cardinality", ["commutative", "secret"])
@pytest.mark.parametrize("ids", [False, True])
def test_a_page_of_sites_with_an_epsilon_does_not_tell_the_number_of_rows(
    cardinality: str, ids: bool
) -> None:
    """Noise of an epsilon of 500 is none here: nothing but the number of rows differs."""
    shown = []
    for n in (40, 41):
        rows = pd.DataFrame({"left": np.arange(n) % 2, "right": np.arange(n) // 2 % 2})
        model = VerticalID3Classifier(
            max_depth=1, epsilon=500.0, cardinality=cardinality, domain=TWO_BITS
        )
        names = [np.arange(n)] * 2 if ids else None
        model.fit_sites([rows[["left"]], rows[["right"]]], [None, rows["left"]], names)
        facts = facts_of_estimator(model)
        assert not facts.costs
        shown.append(facts.openings)
        # What the sites hold has it, and says so.
        assert model.n_records_ == n
    assert shown[0] == shown[1]
    assert sum(len(part.rows) for part in shown[0]) > 10


def test_what_is_hidden_is_drawn_so(fitted: list[Any], tmp_path: Path) -> None:
    for number, model in enumerate(fitted):
        facts = facts_of_estimator(model)
        name = type(model).__name__
        hides = getattr(model, "hide", "nothing") != "nothing" or name.startswith("Hidden")
        assert hides == (facts.model is None and not facts.numbers), name
        assert bool(facts.hidden) == (hides and name != "PivotLogisticRegression"), name
        text = text_of(model.report(tmp_path / f"{number}.html").read_text())
        assert ("What is dashed is hidden" in text) == bool(facts.hidden)


def test_weights_that_all_see_are_listed(fitted: list[Any]) -> None:
    (model,) = [m for m in fitted if hasattr(m, "coef_")]
    (table,) = facts_of_estimator(model).numbers
    weights = dict(table.rows)
    assert weights.pop("intercept") == tuple(model.intercept_.tolist())
    assert list(weights) == model.features_.tolist()
    np.testing.assert_array_equal(np.array(list(weights.values())).T, model.coef_)


def test_a_page_that_is_there_is_kept(tmp_path: Path) -> None:
    model = hedgerow.CARTClassifier(max_depth=1, domain=CLASSES).fit(*small_rows(ID3Classifier))
    page = model.report(tmp_path / "page.html")
    with pytest.raises(HedgerowError) as caught:
        model.report(page)
    assert caught.value.code is Code.FILE_EXISTS
    assert model.report(page, force=True) == page
