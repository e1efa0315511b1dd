"""Pages of reports as tests look at them: figures against the ledger, and in a browser."""

import html
import re
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from hedgerow.privacy import Ledger
from hedgerow.reports.audiences import totals_of
from tests.browser import CHROMIUM, NO_BROWSER, Watched, browser, watched

VIEWS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark-narrow": {"dark": True, "width": 390},
    "light-narrow": {"width": 390},
    # Paper is white, also for who looks at a dark screen.
    "print": {"printed": True, "dark": True, "width": 794},
}
"""Ways in which people see a page; 794 pixels are the width of A4."""

FIGURE = '<abbr title="epsilon">ε</abbr> {:.6g}</span>'


def check_figures(page: str, ledger: Ledger) -> None:
    """Every epsilon of the ledger stands on a card, and none besides."""
    totals = totals_of(ledger).values()
    expected = {FIGURE.format(total.epsilon) for total in totals if total.private}
    cards = page[page.index('<ul class="cards">') :]
    cards = cards[: cards.index("</ul>")]
    assert set(re.findall(r"<abbr.*?</span>", cards)) == expected
    nothing = '<span class="badge bad">nothing promised</span>' in cards
    assert nothing == any(not total.private for total in totals)


def check_pages(pages: Sequence[Path]) -> None:
    """Open pages as people see them, each in one of the ways, by turns; last in a test.

    Without a browser the test is skipped, once all else that it checks has passed.
    """
    if CHROMIUM is None:
        pytest.skip(f"all but how pages look has passed; that {NO_BROWSER}")
    with browser() as running:
        for page, view in zip(pages, cycle(VIEWS)):
            check_page(running, page, view)


def check_page(running: Browser, page: Path, view: str) -> None:
    """Open a page in one of the ways, and keep a picture of it beside the page."""
    with watched(running, **VIEWS[view]) as seen:
        seen.page.goto(page.as_uri())
        check_open_page(seen)
        assert seen.asked == [page.as_uri()]
        seen.page.screenshot(path=page.with_name(f"{page.stem}-{view}.png"), full_page=True)


def check_open_page(seen: Watched) -> None:
    """Nothing is broken, hidden from the keyboard, wider than the page, or hard to read."""
    assert seen.findings() == []
    assert seen.errors == []
    assert seen.page.locator("main h2").count() == seen.page.locator("nav a").count()
    # What is wide scrolls in its own box, never the page.
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Figures that do not fit beside the words of a fold are below them, inside of it.
    assert seen.page.eval_on_selector_all(
        "summary .figure",
        """all => all.every(one => one.getBoundingClientRect().bottom
            <= one.closest("summary").getBoundingClientRect().bottom)""",
    )
    if seen.page.evaluate("matchMedia('print').matches"):
        # Nobody unfolds paper.
        assert seen.page.eval_on_selector_all(
            "details :is(p, table, svg)", "all => all.every(one => one.checkVisibility())"
        )
        return
    for fold in seen.page.locator("details > summary:visible").all()[:3]:
        was = fold.evaluate("it => it.parentElement.open")
        fold.focus()
        seen.page.keyboard.press("Enter")
        assert fold.evaluate("it => it.parentElement.open") != was
        seen.page.keyboard.press("Enter")


def text_of(page: str) -> str:
    """Return what a reader sees of a page."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))
