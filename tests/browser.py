"""Pages as people see them: opened in Chromium, which may ask for nothing beyond what it is given.

The browser is Debian's `chromium` or whichever `$CHROMIUM` names; without one, tests that want it
are skipped and say so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NO_BROWSER = "needs Chromium: apt install chromium"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)
SERIOUS = {"serious", "critical"}


@dataclass
class Watched:
    """A page and all that it has said and asked for."""

    page: Page
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def findings(self) -> list[str]:
        """Return what axe-core finds that keeps people from using the page."""
        found: list[dict[str, Any]] = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['help']}" for one in found if one["impact"] in SERIOUS]


@contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


@contextmanager
def watched(
    running: Browser,
    *,
    dark: bool = False,
    width: int = 1280,
    script: bool = True,
    printed: bool = False,
) -> Iterator[Watched]:
    """Open an empty page in light or dark; `script` false: as where scripts are switched off.

    `printed`: as on paper, of a screen that is light or dark.
    """
    context = running.new_context(
        color_scheme="dark" if dark else "light",
        viewport={"width": width, "height": 900},
        java_script_enabled=script,
    )
    page = context.new_page()
    page.emulate_media(media="print" if printed else "screen")
    found = Watched(page)

    def note(request: Request) -> None:
        found.asked.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on(
        "console", lambda said: found.errors.append(said.text) if said.type == "error" else None
    )
    try:
        yield found
    finally:
        context.close()
