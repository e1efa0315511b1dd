"""Pages of the console: what `PartyFacts` has, put into the templates of ``pages/``.

A page is one text with its style and its script in it, which the browser knows by their hashes; it
loads nothing else, and runs nothing else.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import math
import re
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup, escape

from hedgerow import __version__
from hedgerow.errors import HedgerowError
from hedgerow.parties.console.facts import PartyFacts
from hedgerow.protocols.registry import askers

_MOST_ENTRIES = 200


@cache
def _texts() -> tuple[str, str]:
    """Return the style of all pages and the script of this one."""
    package = resources.files("hedgerow")
    theme = package.joinpath("reports/pages/theme.css").read_text("utf-8")
    own = package.joinpath("parties/console/pages")
    style = theme + own.joinpath("console.css").read_text("utf-8")
    return style, own.joinpath("live.js").read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("hedgerow", "parties/console/pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _texts()
    # Known by their hashes, and so as they are.
    made.globals |= {"style": style, "script": script, "version": __version__, "askers": askers}
    made.filters |= {"time": _time, "figure": _figure, "width": _width, "words": _words}
    return made


@cache
def headers() -> dict[str, str]:
    """Return what browsers are told with every page."""
    style, script = map(_hash, _texts())
    policy = {
        "default-src": "'none'",
        "style-src": style,
        "script-src": script,
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{key} {value}" for key, value in policy.items()),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Server": "hedgerow",
    }


def failure(error: HedgerowError) -> str:
    """Return the page of a numbered error."""
    title = f"{error.code.number} {error.code.spec.title}"
    return notice(title, f"Found: {error.found}.", f"What to do: {error.fix}.")


def notice(title: str, *lines: str) -> str:
    """Return a page with these words alone, for who may have no session."""
    return _environment().get_template("notice.html").render(title=title, lines=lines)


class ConsolePages:
    """Makes the pages of one session; all of them lie below the path `root`."""

    def __init__(self, facts: PartyFacts, root: str, word: str) -> None:
        self._facts = facts
        self._common = {"facts": facts, "root": root, "word": word}

    def overview(self) -> str:
        """Return the first page: what needs somebody, then all there is."""
        found = self._facts.overview()
        return self._render("overview.html", live=True, all=found, headline=found.headline)

    def run(self, run: str) -> str:
        """Return the page of a run: how far it is, and what its job would reveal to whom."""
        one = self._facts.run(run)
        return self._render(
            "run.html",
            live=not one.status.has_ended,
            one=one,
            disclosure=self._facts.disclosure(one.run.job),
            decided=self._facts.approval(one.run),
            until=self._facts.decides_until(one.run),
            balances={balance.population: balance for balance in self._facts.balances()},
        )

    def model(self, name: str) -> str:
        """Return the page of a model."""
        return self._render("model.html", live=False, report=self._facts.model(name))

    def trail(self) -> str:
        """Return the latest entries of the trail."""
        return self._render("trail.html", live=False, entries=self._facts.trail(_MOST_ENTRIES))

    def _render(self, template: str, **fields: Any) -> str:
        now = datetime.datetime.now(datetime.UTC)
        made = _environment().get_template(template)
        return made.render(now=now, **self._common, **fields)


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _time(at: float | datetime.datetime, form: str = "%Y-%m-%d %H:%M") -> str:
    if not isinstance(at, datetime.datetime):
        at = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return f"{at:{form}}"


def _words(text: object) -> Markup:
    """Show what stands in backquotes as what is typed at a shell."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(str(text)))))  # noqa: S704


def _figure(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}"


def _width(part: float, whole: float) -> float:
    """Return the part as a percentage of a whole that may be infinite."""
    if not math.isfinite(part):
        return 100.0
    return (
        0.0 if not math.isfinite(whole) or whole <= 0 else round(min(100.0, 100 * part / whole), 2)
    )
