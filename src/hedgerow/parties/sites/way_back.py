"""`WayBack`: how the news that a question has ended goes back to its asker.

It goes from site to site, as the question came, and says what kind of fault there was, in words of
this file. The asker hears it of the site that it has asked itself: neither the sender nor the text
says how far the question has gone.

Reveals: to the asker, and to the sites between, the number of the fault. To the site where it
happened, everything: there it is logged.
"""

from __future__ import annotations

import threading

from hedgerow.errors import Code, HedgerowError

MOST_CALLS = 1 << 16
"""Questions that a site remembers; the news of an older one is not handed on."""
_TOLD = -1

_FIXES = {
    Code.IDS_DO_NOT_ALIGN: "check the ids: an instance has to be in the table of every site on its "
    "path, or in what that site was started with as --instances",
}


class WayBack:
    """Which site each question came from; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._came: dict[int, int] = {}

    def came(self, call: int, sender: int) -> None:
        """Note that a question came from a site.

        A question may come to a site again, further down its path. The first time counts: each
        site on the way back has then heard of it earlier than the one before, so the way ends.
        """
        with self._lock:
            self._came.setdefault(call, sender)
            while len(self._came) > MOST_CALLS:
                del self._came[next(iter(self._came))]

    def take(self, call: int) -> int | None:
        """Return the site to be told that a question has ended; None if there is none any more."""
        with self._lock:
            found = self._came.get(call, _TOLD)
            if found == _TOLD:
                return None
            # Once is enough, and what goes in a circle, by somebody's malice, ends here.
            self._came[call] = _TOLD
            return found


def veiled(error: HedgerowError) -> HedgerowError:
    """Say what kind of fault there was, and neither where nor about what."""
    return error.code.error(
        expected="every site on the path serving the job, with its nodes and the instances",
        found="a fault on the path, at a site that is not named to the one that asks",
        fix=_FIXES.get(
            error.code,
            "ask again when all sites serve the job; the site where it happened has it in its log",
        ),
    )
