"""The site of the documentation: built without a warning, complete, read without a network."""

import fcntl
import importlib.util
import logging
import os
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

import hedgerow
from hedgerow.errors import Code
from tests.browser import browser, needs_browser, watched

ROOT = Path(__file__).parents[1]
# A start page, a tutorial, an explanation with tables, names made of docstrings, a long table,
# figures of several panels.
KINDS = (
    "index.html",
    "tutorial/first-private-tree.html",
    "explanation/privacy.html",
    "reference/api/servers.html",
    "errors/index.html",
    "reproduction/000.html",
)


class Links(HTMLParser):
    """What a page fetches, where it leads, and the places on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {key: value or "" for key, value in attrs}
        self.places |= {said[key] for key in ("id", "name") if said.get(key)}
        if "src" in said:
            self.fetched.append(said["src"])
        if tag == "link" and said.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(said["href"])
        if tag == "a" and "href" in said:
            self.leads.append(said["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # One site for all workers, of which the first makes it.
        folder = folder.parent
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "site" / "index.html").exists():
            logging.getLogger("mkdocs").setLevel(logging.WARNING)
            made = folder / "making"
            build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(made)))
            made.rename(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Links]:
    return {
        str(path.relative_to(site)): Links(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
    }


def test_every_page_of_the_docs_is_on_the_site(pages: dict[str, Links]) -> None:
    sources = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    names = [
        str(path.with_name("index.html" if path.name == "README.md" else f"{path.stem}.html"))
        for path in sources
    ]
    assert [name for name in names if name not in pages] == []


def test_every_link_leads_to_a_place_on_the_site(pages: dict[str, Links], site: Path) -> None:
    broken = []
    for name, page in pages.items():
        # The page for wrong addresses has links from the root, wherever that will be.
        for href in page.leads if name != "404.html" else []:
            to = urlsplit(href)
            if to.scheme or to.netloc:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(to.path)))
            target = name if not to.path else path
            known = target in pages or (site / target).is_file()
            # The theme makes this place itself, for readers who skip what comes before the text.
            place = unquote(to.fragment)
            there = not place or place == "__skip" or place in pages[target].places
            if not known or not there:
                broken.append(f"{name}: {href}")
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(pages: dict[str, Links], site: Path) -> None:
    fetched = {src for page in pages.values() for src in page.fetched}
    assert fetched
    assert [src for src in fetched if urlsplit(src).netloc] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//", styles) == []


def test_every_name_verb_and_error_has_its_place(pages: dict[str, Links]) -> None:
    api = {
        place for name, page in pages.items() if "reference/api/" in name for place in page.places
    }
    assert [name for name in hedgerow.__all__ if f"hedgerow.{name}" not in api] == []
    verbs = tool("verbs_page")
    found = pages["reference/verbs.html"].places
    assert [name for name in verbs.verbs() if verbs.anchor(name) not in found] == []
    assert [one.number for one in Code if f"errors/{one.number}.html" not in pages] == []
    listed = pages["errors/index.html"].leads
    assert [one.number for one in Code if f"{one.number}.html" not in listed] == []


def test_a_page_comes_into_the_navigation_by_itself() -> None:
    made = tool("site_hooks").navigation(
        ["README.md", "how-to/later.md", "how-to/domain.md", "reproduction/paper-009.md"], ROOT
    )
    assert made == [
        {"Hedgerow": "README.md"},
        {"How to": ["how-to/domain.md", "how-to/later.md"]},
        {"Reproduction": ["reproduction/paper-009.md"]},
    ]


@pytest.mark.parametrize("name", ["verbs", "metrics", "papers"])
def test_the_reference_is_made_of_the_code(name: str) -> None:
    written = (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8")
    assert written == tool(f"{name}_page").page(), "run `make docs`"


@pytest.mark.long
@needs_browser
def test_people_can_read_it(site: Path) -> None:
    """In light and dark, on a desk and on a telephone, by a screen reader; from a folder."""
    with browser() as running:
        for dark, width in ((False, 1280), (True, 390)):
            with watched(running, dark=dark, width=width) as seen:
                for kind in KINDS:
                    seen.page.goto((site / kind).as_uri())
                    wide = seen.page.evaluate("document.documentElement.scrollWidth")
                    assert wide <= width, kind
                assert seen.errors == []
                # Apart from the above: what axe-core asks for, a page in a folder is refused.
                for kind in KINDS:
                    seen.page.goto((site / kind).as_uri())
                    assert seen.findings() == [], kind
                assert [url for url in seen.asked if not url.startswith(site.as_uri())] == []
        with watched(running) as seen:
            seen.page.goto((site / "how-to/domain.html").as_uri())
            # The theme looks at keys, not at values that a program puts in.
            seen.page.locator(".md-search__input").press_sequentially("noisy max")
            first = seen.page.locator(".md-search-result__link").first
            assert "noisy" in first.inner_text().lower()
            assert seen.errors == []


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
