"""`hedgerow report`: the page of a model file, as people see it."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser
from typer.testing import CliRunner

from hedgerow import (
    Attribute,
    CARTClassifier,
    Domain,
    DPBoostingClassifier,
    DPTreeClassifier,
    MedianForestClassifier,
    Target,
    TopDownTreeClassifier,
)
from hedgerow.charts.look import text_width
from hedgerow.cli.main import app
from hedgerow.errors import HedgerowError
from hedgerow.privacy import Ledger
from hedgerow.reports.facts import Openings, RunCost, StageCost
from hedgerow.reports.ledger_tree import ledger_tree
from hedgerow.reports.model_file import facts_of_file
from hedgerow.reports.page import report_page
from tests.browser import browser, needs_browser, watched
from tests.reports.pages import VIEWS, check_page

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "<script>x</script>")),
    ),
    target=Target(name="ill", classes=(0, 1)),
    capacity=400,
)
MODELS = {
    "tree": DPTreeClassifier(epsilon=1.0, domain=DOMAIN, max_depth=3),
    "topdown": TopDownTreeClassifier(epsilon=2.0, domain=DOMAIN, n_splits=4),
    "median": MedianForestClassifier(epsilon=2.0, domain=DOMAIN, n_estimators=3, max_depth=3),
    "boosting": DPBoostingClassifier(epsilon=1.0, domain=DOMAIN, delta=1e-6, n_estimators=3),
    "clear": CARTClassifier(max_depth=2, domain=DOMAIN),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models, each with its page beside it."""
    rng = np.random.default_rng(0)
    wards = np.array(DOMAIN.attributes[1].categories)
    rows = pd.DataFrame({"age": rng.integers(0, 100, 300), "ward": rng.choice(wards, 300)})
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, model in MODELS.items():
        found[name] = folder / f"{name}.json"
        found[name].write_text(model.fit(rows, (rows.age > 60).astype(int)).to_json())
        done = CliRunner().invoke(app, ["report", str(found[name])])
        assert done.exit_code == 0, done.output
        assert done.output.replace("\n", "") == f"wrote {found[name].with_suffix('.report.html')}"
    return found


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser() as started:
        yield started


@needs_browser
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_page_is_whole_and_asks_for_nothing(
    files: dict[str, Path], running: Browser, name: str, view: str
) -> None:
    page = files[name].with_suffix(".report.html")
    assert re.search(r'id="model">.*<svg', page.read_text(), re.S)
    check_page(running, page, view)


@needs_browser
def test_folds_of_the_ledger_open_by_keyboard(files: dict[str, Path], running: Browser) -> None:
    with watched(running) as seen:
        seen.page.goto(files["tree"].with_suffix(".report.html").as_uri())
        fold = seen.page.locator("#ledger ~ details > summary").first
        assert fold.evaluate("it => it.parentElement.open")
        fold.focus()
        seen.page.keyboard.press("Enter")
        assert not fold.evaluate("it => it.parentElement.open")
        seen.page.keyboard.press("Space")
        assert fold.evaluate("it => it.parentElement.open")


@pytest.mark.parametrize("name", ["tree", "topdown", "median", "boosting"])
def test_epsilons_are_those_of_the_ledger(files: dict[str, Path], name: str) -> None:
    page = files[name].with_suffix(".report.html").read_text()
    ledger = facts_of_file(files[name]).ledger
    assert isinstance(ledger, Ledger)
    epsilon = f"{ledger.total('public').epsilon:.6g}"
    assert f'<abbr title="epsilon">ε</abbr> {epsilon}</span>' in page
    assert ledger_tree(ledger, "public").cost.split(",")[0] == f"ε {epsilon}"


def test_a_model_without_a_ledger_promises_nothing(files: dict[str, Path]) -> None:
    page = files["clear"].with_suffix(".report.html").read_text()
    assert "<strong>No finite epsilon.</strong>" in page
    assert "<abbr" not in page
    # There is nobody to evaluate it on the rows of others.
    assert "hedgerow evaluate" not in page


@pytest.mark.parametrize("name", MODELS)
def test_names_of_the_domain_are_escaped(files: dict[str, Path], name: str) -> None:
    page = files[name].with_suffix(".report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("provenance", "said"),
    [
        ("declared", "were stated in public, before any row was read."),
        ("confirmed public", "were read from rows or typed, and somebody has confirmed"),
        ("read from data", "were read from the data</strong>"),
    ],
)
def test_where_the_domain_comes_from_is_said(
    files: dict[str, Path], tmp_path: Path, provenance: str, said: str
) -> None:
    document = json.loads(files["clear"].read_text())
    document["domain"]["provenance"] = provenance
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    page = report_page(facts_of_file(path))
    assert said in page
    assert page.count("Attributes, bounds and categories were") == 1


def test_what_nothing_is_known_of_has_no_section(files: dict[str, Path]) -> None:
    facts = facts_of_file(files["tree"])
    assert re.findall('<h2 id="([a-z]+)"', report_page(facts)) == [
        *("epsilon", "model", "ledger", "card")
    ]
    steps = (StageCost("and", 1, 2, 3), StageCost("farewell", 1, 2, 3))
    told = replace(
        facts, costs=(RunCost("Sent", steps),), openings=(Openings("What zoe learned", ()),)
    )
    page = report_page(told)
    assert page.count('href="#cost"') == page.count('<h2 id="cost"') == 1
    assert "and, products of bits; farewell, the word that all are done." in page
    assert "Nothing was opened on the way to the model." in page
    assert "0 kinds" not in page


def test_names_below_an_axis_are_whole(files: dict[str, Path]) -> None:
    page = files["tree"].with_suffix(".report.html").read_text()
    names = re.findall(r'class="soft end" x="([0-9.]+)"[^>]*rotate[^>]*>([^<]*)<', page)
    assert [name for _, name in names][:2] == [
        "split of each node at level 0",
        "split of each node at level 1",
    ]
    cosine = math.cos(math.radians(30))
    assert all(float(x) - cosine * text_width(name) >= 0 for x, name in names)


def test_the_card_says_that_noise_alone_may_answer(files: dict[str, Path]) -> None:
    limits = files["tree"].with_suffix(".report.html").read_text().partition("Limits, and")[2]
    assert "noise alone may have made it, and its probability may be 1" in limits


def test_values_that_share_a_bin_and_the_capacity_of_the_domain_are_told(
    files: dict[str, Path],
) -> None:
    facts = facts_of_file(files["clear"])
    assert facts.domain is not None
    ages, wards = facts.domain.attributes
    assert "share a bin" not in report_page(facts)
    shared = wards.model_copy(update={"outside": "clip"})
    domain = facts.domain.model_copy(update={"attributes": (ages, shared), "capacity": 3000})
    page = report_page(replace(facts, domain=domain, parameters=(("capacity", "not set"),)))
    assert "&lt;/script&gt;; all others share a bin</td>" in page
    assert '<th scope="row">capacity</th><td>not set: 3,000, the domain&#39;s</td>' in page


def test_a_page_that_is_there_is_kept(files: dict[str, Path]) -> None:
    with pytest.raises(HedgerowError, match="H902"):
        CliRunner().invoke(app, ["report", str(files["tree"])], catch_exceptions=False)


def test_paths_that_no_file_can_have_are_refused(files: dict[str, Path]) -> None:
    long = "m" * 300
    runner = CliRunner()
    for verb in ("report", "show"):
        with pytest.raises(HedgerowError, match="H405"):
            runner.invoke(app, [verb, f"{long}.json"], catch_exceptions=False)
    with pytest.raises(HedgerowError, match="H869"):
        runner.invoke(app, ["report", str(files["tree"]), "--out", long], catch_exceptions=False)


def test_a_name_turns_nothing_around(files: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads(files["boosting"].read_text())
    document["domain"]["attributes"][0]["name"] = "ag\u202ee\x1b[2J"
    document["domain"]["attributes"][1]["categories"][0] = "a\u2066b"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    page = report_page(facts_of_file(path))
    assert {c for c in page if not c.isprintable()} == {"\n"}
    assert "ag\\u202ee\\x1b[2J" in page
    # A description keeps its lines.
    assert "\n" in page.partition("<pre")[2].partition("</pre>")[0]


@pytest.mark.filterwarnings("ignore:overflow")
def test_noise_beyond_all_floats_has_a_page(files: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads(files["boosting"].read_text())
    noise = document["boosted"]["noise"]
    document["boosted"]["noise"] = [one and [1e308] * len(one) for one in noise]
    path = tmp_path / "loud.json"
    path.write_text(json.dumps(document))
    assert "Bands: 95%" in report_page(facts_of_file(path))
