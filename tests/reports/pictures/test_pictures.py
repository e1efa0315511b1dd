"""Pictures of models: the figures are the model's, with matplotlib and without."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

import hedgerow.charts.axes
from hedgerow import CARTClassifier, DPBoostingClassifier, MedianForestClassifier
from hedgerow.errors import Code, HedgerowError
from hedgerow.reports import pages
from hedgerow.reports.pictures import (
    HiddenTree,
    importance_svg,
    plot_model,
    privacy_curve_svg,
    shape_svg,
    tree_svg,
)
from hedgerow.reports.pictures.shapes import BAND, shape_panel
from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees.additive import effect
from hedgerow.trees.boosted import Boosted
from tests.browser import browser, needs_browser, watched

SVG = "{http://www.w3.org/2000/svg}"
NAME = "<b>age&"
DOMAIN = Domain(
    attributes=(
        Attribute(name=NAME, kind="numeric", bounds=(0, 10), bins=8),
        Attribute(name="kind", kind="categorical", categories=("a", "b", "c")),
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=1_000,
)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, 600)
    kind = rng.integers(0, 3, 600)
    y = (x + 2 * kind + rng.normal(0, 1, 600) > 7).astype(int)
    return np.array([[a, "abc"[b]] for a, b in zip(x, kind, strict=True)], dtype=object), y


@pytest.fixture(scope="module")
def boosted(rows: tuple[np.ndarray, np.ndarray]) -> DPBoostingClassifier:
    return DPBoostingClassifier(4.0, DOMAIN, delta=1e-6).fit(*rows)


@pytest.fixture(scope="module")
def tree(rows: tuple[np.ndarray, np.ndarray]) -> CARTClassifier:
    return CARTClassifier(domain=DOMAIN, max_depth=2).fit(*rows)


def drawn(boosted: DPBoostingClassifier, tree: CARTClassifier) -> list[str]:
    return [
        tree_svg(tree.tree_),
        tree_svg(HiddenTree.complete(3)),
        importance_svg(boosted.boosted_, noisy=True),
        shape_svg(boosted.boosted_, NAME),
        shape_svg(boosted.boosted_, "kind"),
        privacy_curve_svg(boosted.privacy_),
    ]


def test_every_picture_has_words(boosted: DPBoostingClassifier, tree: CARTClassifier) -> None:
    for picture in drawn(boosted, tree):
        root = ElementTree.fromstring(picture)
        assert root.get("role") == "img"
        assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
        assert all(child.text for child in list(root)[:2])
        assert "<b>" not in picture


def test_bands_are_the_quantiles_of_the_stated_noise(boosted: DPBoostingClassifier) -> None:
    model = boosted.boosted_
    found = effect(model, 0)
    assert found is not None
    assert found.deviation is not None
    line = shape_panel(model, NAME).series[0]
    assert np.allclose(line.y, found.values[:, 0])
    assert np.allclose(np.subtract(line.high, line.y), BAND * found.deviation[:, 0])
    assert np.allclose(np.subtract(line.y, line.low), BAND * found.deviation[:, 0])
    without = Boosted(model.domain, model.trees, model.start, model.link)
    assert not shape_panel(without, NAME).series[0].low
    assert "Bands" not in shape_svg(without, NAME)


def test_plots_show_what_the_model_says(
    boosted: DPBoostingClassifier, tree: CARTClassifier, rows: tuple[np.ndarray, np.ndarray]
) -> None:
    forest = MedianForestClassifier(4.0, domain=DOMAIN).fit(*rows)
    axes = Figure().subplots(1, 4).tolist()
    assert tree.plot(ax=axes[0]) is axes[0]
    shown = {text.get_text() for text in axes[0].texts}
    assert {"Decision tree for y", "n = 600"} <= shown
    bars = [bar.get_width() for bar in forest.plot(ax=axes[1]).patches]
    assert bars == pytest.approx(sorted(forest.feature_importances_, reverse=True))
    stairs = boosted.plot(NAME, ax=axes[2]).patches[0]
    found = effect(boosted.boosted_, 0)
    assert found is not None
    assert np.allclose(stairs.get_data().values, found.values[:, 0])
    two = boosted.privacy_.plot(axes=Figure().subplots(1, 2).tolist())
    last = two[1].lines[-1].get_ydata()[-1]
    assert last == pytest.approx(boosted.privacy_.formal_total().epsilon)


def test_attributes_without_a_shape_are_refused(
    boosted: DPBoostingClassifier, tree: CARTClassifier
) -> None:
    for model, attribute in ((boosted.boosted_, "nobody"), (boosted.boosted_, 2), (tree.tree_, 0)):
        with pytest.raises(HedgerowError) as caught:
            plot_model(model, attribute, ax=Figure().subplots())
        assert caught.value.code is Code.BAD_PARAMETER


def test_without_matplotlib_the_error_says_what_to_install(
    boosted: DPBoostingClassifier, tree: CARTClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> object:
        return None if name == "matplotlib" else importlib.util.find_spec(name)

    monkeypatch.setattr(hedgerow.charts.axes, "find_spec", find)
    for plot in (tree.plot, boosted.plot, boosted.privacy_.plot):
        with pytest.raises(HedgerowError, match=r"'\.\[plots\]'") as caught:
            plot()
        assert caught.value.code is Code.MISSING_EXTRA
    assert len(drawn(boosted, tree)) == 6


@needs_browser
def test_pictures_can_be_read_on_a_page(
    boosted: DPBoostingClassifier, tree: CARTClassifier
) -> None:
    theme = (Path(pages.__path__[0]) / "theme.css").read_text()
    figures = "".join(f"<figure>{picture}</figure>" for picture in drawn(boosted, tree))
    html = (
        "<!doctype html><html lang=en><title>Pictures</title>"
        f"<style>{theme}</style><main><h1>Pictures</h1>{figures}</main>"
    )
    with browser() as running:
        for dark in (False, True):
            with watched(running, dark=dark) as seen:
                seen.page.set_content(html)
                assert not seen.findings()
                assert not seen.errors
                assert not seen.asked
                # The theme has a class of this name: it must not make the bars of leaves taller.
                heights = seen.page.eval_on_selector_all(
                    ".track", "all => all.map(one => one.getBBox().height)"
                )
                assert heights
                assert max(heights) == pytest.approx(5)
