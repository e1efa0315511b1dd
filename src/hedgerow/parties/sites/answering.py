"""`InstanceAnswers`: a site with its part of a tree, which classifies instances token by token.

A question goes from site to site as `vertical_id3.classify` says. What a site cannot do
(a token of no node, an instance that it does not have, a next site that is not reached), it logs,
and the asker, who would wait otherwise, is told. That news goes back from site to site, as the
question came (`WayBack`), and says what kind of fault there was, in words of this file. The asker
hears it of the site that it has asked itself: neither the sender nor the text says how far the
question has gone.

Reveals: to a site on the path the instances that come to its nodes, and their next tokens; to the
asker, or to the class site alone, the class counts of a leaf. The path beyond a site's own nodes is
shown to nobody, also when a question ends on it: of that, the asker and the sites between are told
the number of the fault.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.post import OtherSites, SitePost, SiteWorker, lost_party, with_names
from hedgerow.parties.sites.store import LearnedRecord, RunRoom, StoredNodes, charge_later
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.durable import FILE_MODE
from hedgerow.parties.wire.requests import error_fields
from hedgerow.protocols.vertical_id3.leakage import exact_releases
from hedgerow.protocols.vertical_id3.messages import (
    Answers,
    AnswersKept,
    Classify,
    Token,
    bad_message,
    from_bytes,
)
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Leaf, Site
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from hedgerow.tables.ids import id_bytes

Steps = list[Token]
Saw = Callable[[str, int, list[str]], None]
"""Told who brought instances, how many, and tokens of the first of them, as far as seen here."""

KEPT_FILE = "kept.jsonl"
"""Answers that the class site keeps to itself."""
MOST_CALLS = 1 << 16
"""Questions that a site remembers; the news of an older one is not handed on."""
_TOLD = -1
_FIXES = {
    Code.IDS_DO_NOT_ALIGN: "check the ids: an instance has to be in the table of every site on its "
    "path, or in what that site was started with as --instances",
}
_logger = logging.getLogger(__name__)


class WayBack:
    """Which site each question came from; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._senders: dict[int, int] = {}

    def note_sender(self, call: int, sender: int) -> None:
        """Note that a question came from a site.

        A question may come to a site again, further down its path. The first time counts: each
        site on the way back has then heard of it earlier than the one before, so the way ends.
        """
        with self._lock:
            self._senders.setdefault(call, sender)
            while len(self._senders) > MOST_CALLS:
                del self._senders[next(iter(self._senders))]

    def take(self, call: int) -> int | None:
        """Return the site to be told that a question has ended; None if there is none any more."""
        with self._lock:
            found = self._senders.get(call, _TOLD)
            if found == _TOLD:
                return None
            # Once is enough, and what goes in a circle, by somebody's malice, ends here.
            self._senders[call] = _TOLD
            return found


class AnsweringSite(Site):
    """A site that grows nothing: it has its nodes, and no rows that they were grown from."""

    def new_call(self) -> int:
        """Return a number that no earlier process of this site has used, either."""
        return (self.index + 1) << 48 | 1 << 47 | secrets.randbits(47)

    def path_of(self, token: Token, instance: bytes) -> Steps:
        """Return the tokens of an instance from one of this site's up to the first elsewhere."""
        steps = [token]
        while steps[-1].site == self.index:
            node = self.nodes.get(steps[-1].node)
            if node is None or isinstance(node, Leaf):
                break
            value = int(self.values_of([instance], node.attribute)[0])
            steps.append(node.children[value])
        return steps


class AnsweringProgram(SiteProgram):
    """Hears of instances alone, and notes where they came from."""

    def __init__(
        self, site: AnsweringSite, names: Sequence[str], saw: Saw, way_back: WayBack
    ) -> None:
        super().__init__(site)
        self._answers, self._names, self._saw, self._way_back = site, names, saw, way_back

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        """Take in a message about instances; H752 for any other."""
        message = from_bytes(data, f"site {sender}")
        if not isinstance(message, Classify | Answers | AnswersKept):
            raise bad_message(
                f"site {sender}", f"{type(message).__name__} after the tree was grown"
            )
        if isinstance(message, Classify):
            self._way_back.note_sender(message.call, sender)
        if isinstance(message, Classify) and message.instances:
            with suppress(HedgerowError):
                # What is wrong with it, the protocol says below.
                own = self._answers
                path = own.path_of(Token(own.index, message.node), message.instances[0])
                self._saw(self._names[sender], len(message.instances), list(map(str, path)))
        return super().receive(sender, data)


class InstanceAnswers:
    """Classify instances with the other sites.

    Parameters
    ----------
    instances : tuple of arrays
        Ids (n,), and bins (n, d), of what this site knows instances by.
    folder : Path
        Of the run: what is learned, and kept, is written there.
    """

    def __init__(
        self,
        others: OtherSites,
        own: OwnColumns,
        stored: StoredNodes,
        instances: tuple[NDArray[Any], NDArray[Any]],
        room: RunRoom,
        saw: Saw = lambda sender, n, path: None,
    ) -> None:
        self.job, self._others, self._folder = others.job, others, room.folder
        self.tree = stored.tree
        index = self.job.sites.index(others.config.name)
        self._site = AnsweringSite(index, self.job.protocol_job(), own.no_rows())
        self._way_back = WayBack()
        self._program = AnsweringProgram(self._site, self.job.sites, saw, self._way_back)
        self._site.take_up(stored.nodes, stored.root)
        self._site.offer(*instances)
        self._learned = LearnedRecord.of_answers(room)
        self._recorded = 0
        self._lock = threading.Lock()
        self._open: dict[int, Future[NDArray[np.int64] | None]] = {}
        self._found: list[tuple[Future[NDArray[np.int64] | None], NDArray[np.int64] | None]] = []
        patience = self.job.timeouts.lost
        self._post = SitePost(
            others, {"what": "ask", "tree": self.tree}, patience, self._undelivered
        )
        self._worker = SiteWorker(
            self.job.sites, self._program, self._post, self._failed, self._tell_found, self._record
        )
        self._inbox = self._worker.inbox

    def ask(self, ids: NDArray[Any]) -> tuple[NDArray[np.int64] | None, list[list[str]]]:
        """Ask for the classes of instances.

        Returns class counts of the leaves, int64 (n, c), or None where the class site keeps them;
        and for each instance its tokens, as far as this site sees them. Fails with what a site on
        the path refuses, H842 if one is not reached, both without names unless it is this site or
        the next; H898 if there is no answer in time.
        """
        names = id_bytes(ids)
        answer: Future[NDArray[np.int64] | None] = Future()
        paths: list[Steps] = []

        def begin() -> list[Outgoing]:
            try:
                root = self._site.root
                assert root is not None
                here = root.site == self._site.index
                paths.extend(self._site.path_of(root, name) if here else [root] for name in names)
                # Told when what was learned by it is on the disk.
                out = self._program.ask(
                    root, names, lambda found: self._found.append((answer, found))
                )
            except HedgerowError as error:
                answer.set_exception(with_names(error, self.job.sites, len(self.job.sites)))
                return []
            calls = {from_bytes(one.data, "here").call for one in out}
            with self._lock:
                self._open |= dict.fromkeys(calls, answer)
            return out

        self._worker.do(begin)
        try:
            found = answer.result(self.job.timeouts.answer)
        except Late:
            last = paths[0][-1] if paths else None
            where = f"; they were sent to {self.job.sites[last.site]}" if last else ""
            raise Code.QUERY_NOT_ANSWERED.error(
                expected=f"an answer within {self.job.timeouts.answer:g} s, as the job allows",
                found=f"none for {len(names)} instances{where}",
                fix="ask again when all sites serve the job; look at what each of them prints",
            ) from None
        finally:
            with self._lock:
                self._open = {call: one for call, one in self._open.items() if one is not answer}
        return found, [[str(token) for token in path] for path in paths]

    def receive(self, sender: str, line: str, first: int, payload: bytes) -> None:
        """Take in messages; see `SiteInbox`."""
        self._inbox.receive(sender, line, first, payload)

    def end_question(self, call: object, error: HedgerowError) -> None:
        """Take in that a question has ended further on; tell where it came from, or who asked."""
        if not isinstance(call, int):
            return
        with self._lock:
            answer = self._open.pop(call, None)
        if answer is not None:
            if not answer.done():
                answer.set_exception(error)
            return
        before = self._way_back.take(call)
        if before is None:
            return
        # Numbers of calls go beyond what every reader of JSON takes for a whole number.
        fields = {"tree": self.tree, "call": str(call), **error_fields(veil(error))}
        to = self.job.sites[before]
        threading.Thread(target=self._tell, args=(to, fields), daemon=True).start()

    def stop(self) -> None:
        """Answer no more."""
        self._post.close()
        self._worker.stop()

    def _failed(self, error: HedgerowError, sender: str, data: bytes) -> None:
        """Have the asker told that a question ends here."""
        if sender:
            self._end_questions([data], error)

    def _undelivered(self, name: str, error: HedgerowError, batch: list[bytes]) -> None:
        self._end_questions(batch, lost_party(name, error, self.job))

    def _end_questions(self, batch: Sequence[bytes], error: HedgerowError) -> None:
        for data in batch:
            try:
                message: Any = from_bytes(data, "a site")
            except HedgerowError:
                continue
            if not isinstance(message, Classify | Answers | AnswersKept):
                continue
            # The operator of this site reads here what the asker is not told.
            event = {"what": "question", "run": self.job.run_id, "outcome": error.code.number}
            _logger.warning("question", extra={"event": {**event, "found": error.found}})
            self.end_question(message.call, error)

    def _tell(self, to: str, fields: dict[str, Any]) -> None:
        # It may be gone; the asker then waits for as long as the job says.
        with suppress(HedgerowError):
            self._others.patient(to, "site-refused", fields, self.job.timeouts.lost)

    def _tell_found(self) -> None:
        found, self._found = self._found, []
        for answer, counts in found:
            if not answer.done():
                answer.set_result(counts)

    def _record(self) -> None:
        """Write what was learned, and what the class site keeps; before anything leaves."""
        rows = self._site.what_was_learned()
        learned = sum(row["times"] for row in rows)
        if learned != self._recorded:
            self._recorded = learned
            names = {row["name"] for row in rows}
            openings = [one for one in self._site.leakages[0].openings if one.name in names]
            charge_later(self._folder, exact_releases(openings))
            self._learned.write_more(self._site.leakages[0])
        if not self._site.kept:
            return
        kept, self._site.kept = self._site.kept, []
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = os.open(self._folder / KEPT_FILE, flags, FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            for instances, counts in kept:
                for name in instances:
                    file.write(json.dumps({"id": readable_id(name), "counts": list(counts)}) + "\n")


def readable_id(name: bytes) -> int | str:
    """Return the id that `id_bytes` has written."""
    if name[:1] == b"i":
        return int.from_bytes(name[1:], "little", signed=True)
    return name[1:].decode("utf-8", "replace")


def read_kept(folder: Path) -> list[tuple[int | str, list[int]]]:
    """Return the answers that were kept, in order: ids and class counts."""
    path = folder / KEPT_FILE
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [jsonfile.loads(line, Code.JOURNAL_DAMAGED) for line in lines]
    return [(row["id"], row["counts"]) for row in rows]


def veil(error: HedgerowError) -> HedgerowError:
    """Say what kind of fault there was, and neither where nor about what."""
    return error.code.error(
        expected="every site on the path serving the job, with its nodes and the instances",
        found="a fault on the path, at a site that is not named to the one that asks",
        fix=_FIXES.get(
            error.code,
            "ask again when all sites serve the job; the site where it happened has it in its log",
        ),
    )
