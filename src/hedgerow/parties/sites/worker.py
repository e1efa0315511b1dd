"""`Worker`: one `SiteProgram` in a thread of its own, between an inbox and a post."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Sequence

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.post import Inbox, Post
from hedgerow.protocols.vertical_id3.programs import SiteProgram
from hedgerow.protocols.vertical_id3.tasks import Outgoing

_logger = logging.getLogger(__name__)
_NUMBERED = re.compile(r"\b(site|server|party) (\d+)\b")

Action = Callable[[], list[Outgoing]]
Failed = Callable[[HedgerowError, str, bytes], None]
"""Told why, and the sender and the message that it happened with; both empty for other actions."""


class Worker:
    """Take messages in, one after the other, and give away what is to be sent.

    Parameters
    ----------
    names : sequence of str
        Of all who take part, as the protocol numbers them: the sites, then the three servers if
        there are any.
    program : SiteProgram
        Used by no other thread.
    post : Post
    failed : callable
        See `Failed`; called in the worker's thread, which goes on.
    after : callable
        Called in the worker's thread after everything that it has done.
    record : callable
        Called there before anything that was done leaves; what it raises is a failure.
    left : callable
        Called there at the end, when nothing more is done.

    Attributes
    ----------
    inbox : Inbox
    """

    def __init__(
        self,
        names: Sequence[str],
        program: SiteProgram,
        post: Post,
        failed: Failed,
        after: Callable[[], None] = lambda: None,
        record: Callable[[], None] = lambda: None,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        self._program, self._post, self._failed, self._after = program, post, failed, after
        self._names, self._record, self._left = list(names), record, left
        self._stopped = False
        self._queue: queue.SimpleQueue[tuple[Action, str, bytes] | None] = queue.SimpleQueue()
        self._undone = 0
        self._lock = threading.Lock()
        self.inbox = Inbox(self._message)
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether there is something that this site has to do now."""
        with self._lock:
            return self._undone > 0

    def do(self, action: Action) -> None:
        """Have something done in the worker's thread; what it returns is sent."""
        self._put(action, "", b"")

    def stop(self) -> None:
        """Do nothing more after what is being done; what waits is dropped."""
        self._stopped = True
        self._queue.put(None)

    def _message(self, sender: str, data: bytes) -> None:
        number = self._names.index(sender)
        self._put(lambda: self._program.receive(number, data), sender, data)

    def _put(self, action: Action, sender: str, data: bytes) -> None:
        with self._lock:
            self._undone += 1
        self._queue.put((action, sender, data))

    def _run(self) -> None:
        while (item := self._queue.get()) is not None and not self._stopped:
            action, sender, data = item
            try:
                done = action()
                self._record()
                for to, outgoing in done:
                    self._post.send(self._names[to], outgoing)
            except HedgerowError as error:
                self._failed(
                    with_names(error, self._names, self._program.site.job.n_sites), sender, data
                )
            except Exception:
                _logger.exception("failure", extra={"event": {"what": "failure"}})
                broken = Code.SERVICE_FAILED.error(
                    expected="a step of the protocol", found=f"a failure of this site ({sender})"
                )
                self._failed(broken, sender, data)
            with self._lock:
                self._undone -= 1
            self._after()
        self._left()


def with_names(error: HedgerowError, names: Sequence[str], n_sites: int) -> HedgerowError:
    """Say the names of sites and servers where the protocol says their numbers."""

    def named(match: re.Match[str]) -> str:
        kind, number = match[1], int(match[2]) + (n_sites if match[1] == "server" else 0)
        kind = kind if kind != "party" else "site" if number < n_sites else "server"
        return f"{kind} {names[number]}" if number < len(names) else match[0]

    texts = (_NUMBERED.sub(named, text) for text in (error.expected, error.found, error.fix))
    expected, found, fix = texts
    made = error.code.error(expected=expected, found=found, fix=fix)
    made.party = error.party
    return made
