"""`Lines`: connections to one party that are kept for the next request.

A handshake costs both sides more than a short request: who makes many of them makes it once.
"""

from __future__ import annotations

import ssl
import threading
import time

from hedgerow.net.certificates import Identity, tls_context
from hedgerow.parties.wire.link import Link

KEPT_SECONDS = 4.0
"""After which a connection is not used again: the other party may be about to close it."""
_MOST = 4


class Lines:
    """Connections to one party; for all threads."""

    def __init__(self, identity: Identity, certificate: str) -> None:
        self._identity, self._certificate = identity, certificate
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._kept: list[tuple[float, Link]] = []

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS for new connections, made once."""
        with self._lock:
            if self._context is None:
                self._context = tls_context(self._identity, [self._certificate], server=False)
            return self._context

    def take(self) -> Link | None:
        """Return a connection that nobody uses; None if there is none that is fresh and open."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                since, link = self._kept.pop()
            # Whoever has something to say between requests takes leave.
            if time.monotonic() - since < KEPT_SECONDS and not link.speaks():
                return link
            link.close()

    def leave(self, link: Link) -> None:
        """Keep a connection whose last reply was read to its end."""
        with self._lock:
            self._kept.append((time.monotonic(), link))
            old = self._kept[:-_MOST]
            del self._kept[:-_MOST]
        for _, link in old:
            link.close()

    def close(self) -> None:
        """End all of them; new ones may be made."""
        with self._lock:
            old, self._kept = self._kept, []
        for _, link in old:
            link.close()
