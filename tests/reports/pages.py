"""Pages of reports as tests look at them: figures against the ledger, and in a browser."""

import html
import re
from pathlib import Path

from hedgerow.privacy import Ledger
from hedgerow.reports.audiences import totals_of
from tests.browser import CHROMIUM, Watched, browser, watched

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


def check_pages(pages: list[Path]) -> None:
    """Open pages as people see them, in light and wide or in dark and narrow, by turns."""
    if CHROMIUM is None:
        # Without a browser, tests of nothing else say so.
        return
    with browser() as running:
        for turn, page in enumerate(pages):
            dark, width = bool(turn % 2), 390 if turn % 2 else 1280
            with watched(running, dark=dark, width=width) as seen:
                seen.page.goto(page.as_uri())
                check_open_page(seen, width)
                assert seen.asked == [page.as_uri()]


def check_open_page(seen: Watched, width: int) -> None:
    """Nothing is broken, hidden from the keyboard, wider than the page, or hard to read."""
    assert seen.findings() == []
    assert seen.errors == []
    assert seen.page.locator("main h2").count() == seen.page.locator("nav a").count()
    # What is wide scrolls in its own box, never the page.
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
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
