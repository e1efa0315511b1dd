"""`Access`: who may look at a console, and from where.

It is for whoever has the token of the daemon, from this machine. A page elsewhere
that has the operator's browser call here is told apart by what the browser says of it:

1. A name that was made to point to this machine (DNS rebinding) is another ``Host`` than loopback.
2. A call from another page has a ``Sec-Fetch-Site`` that says so. Where a browser sends none, what
   changes something needs an ``Origin`` that is this console.
3. Browsers send cookies to all ports of a host. This one is for a path that nobody else knows, so
   that other services on this machine do not get it.
4. A form has a word that only pages of the same session know.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Mapping
from urllib.parse import urlsplit

from hedgerow.errors import Code

ADDRESS_FILE = "console.url"
"""In the state of a party that serves: the address with the token, for its user alone."""
COOKIE = "hedgerow-console"
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_MOST_SESSIONS = 16
_HERE = ("none", "same-origin")


class ConsoleRefusal(Exception):  # noqa: N818
    """A call that is not answered: H939, and a status of HTTP."""

    def __init__(self, status: int, found: str, fix: str | None = None) -> None:
        self.status, self.error = status, Code.CONSOLE_REFUSES.error(found=found, fix=fix)
        super().__init__(str(self.error))


class Access:
    """The token of a console, and the sessions of those who have shown it."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.path = f"/{secrets.token_hex(8)}/"
        self._key = secrets.token_bytes(32)
        # Of many the oldest has to go.
        self._sessions: deque[str] = deque(maxlen=_MOST_SESSIONS)

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse a call that does not come from this machine and from this console's own pages."""
        host = headers.get("Host", "")
        if _hostname(host) not in _LOOPBACK:
            raise ConsoleRefusal(421, "a Host that is neither 127.0.0.1 nor localhost")
        site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
        # With `Referrer-Policy: no-referrer` browsers send "null" for a form of their own page.
        if origin == "null" and site == "same-origin":
            origin = None
        foreign = site is not None and site not in _HERE
        foreign |= origin is not None and _place(origin) != host
        foreign |= method != "GET" and site != "same-origin" and origin is None
        if foreign:
            raise ConsoleRefusal(
                403,
                "a call from another page",
                "paste the address of the console into the address bar",
            )

    def open_session(self, token: str) -> str:
        """Return a new session for the token."""
        if not _same(token, self.token):
            raise _no_token()
        self._sessions.append(secrets.token_urlsafe(32))
        return self._sessions[-1]

    def check_session(self, headers: Mapping[str, str]) -> str:
        """Return the session of a call; other services on this machine may have set cookies too."""
        parts = [part.strip().partition("=") for part in headers.get("Cookie", "").split(";")]
        given = [value for name, _, value in parts if name == COOKIE]
        # All are compared, however early one is the same.
        same = [one for one in list(self._sessions) for value in given if _same(value, one)]
        if not same:
            raise _no_token()
        return same[0]

    def form_word(self, session: str) -> str:
        """Return what forms of a session have to send along."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def check_form(self, session: str, word: str) -> None:
        """Refuse a form that no page of this session has shown."""
        if not _same(word, self.form_word(session)):
            raise ConsoleRefusal(403, "a form of another session", "load the page again")

    def end_session(self, session: str) -> None:
        """Forget a session."""
        self._sessions.remove(session)


def _no_token() -> ConsoleRefusal:
    return ConsoleRefusal(
        401,
        "no token of this console, or one of an earlier start",
        f"open the address in `state/{ADDRESS_FILE}` of the party's folder, with the token in it; "
        "every start of `hedgerow serve` writes another one",
    )


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _place(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
