"""`Daemon`: a member of a consortium that takes part in runs, whatever its role.

It joins what the other modules do: requests (`Service`), or letters where nobody calls it
(`LetterBox`), runs, and at a server, a site or a peer uploads and answers, whose sessions with
others have one port (`RunPort`). All that counts is on the disk, so a daemon that was killed goes
on where it was.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from hedgerow import __version__
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import HOLDERS, PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys, endings, known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import Health
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.evaluation.verbs import EvaluationVerbs
from hedgerow.parties.queries.answering import QueryService
from hedgerow.parties.roles.catalogue import Catalogue, ChargeVerbs
from hedgerow.parties.roles.numbers import party_numbers
from hedgerow.parties.roles.owner_account import Bookkeeper
from hedgerow.parties.runs.child import Forker
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store import models
from hedgerow.parties.store.durable import Claim, remove_leftovers
from hedgerow.parties.store.manifests import MAX_MANIFEST_BYTES
from hedgerow.parties.store.uploads import UploadVerbs, remove_withdrawn
from hedgerow.parties.vertical.answering import HolderAnswers
from hedgerow.parties.vertical.preparing import PeerPreparations
from hedgerow.parties.wire.handlers import (
    ServiceLimits,
    declared_verbs,
    verb,
)
from hedgerow.parties.wire.inbox import Inbox, LetterBox
from hedgerow.parties.wire.logs import BoundedLog
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.parties.wire.service import Service

if TYPE_CHECKING:
    from hedgerow.parties.console.server import Console

_logger = logging.getLogger(__name__)
_EVERYBODY = ("server", "owner", "analyst", "coordinator", *HOLDERS)
LOG_FILE = "log.jsonl"
_AWAKE = 0.25
"""Seconds between looks at signals."""


class Daemon:
    """A party as one object; use `serve` to run it until it is told to stop.

    `console_port`: of its console, on loopback; 0 takes a free one, and None has no console.

    Raises H905 for an analyst, who takes part in no run, H857 if a certificate was not added,
    H810, H865 or H866 for a key that is not safe, H811 if a port is taken, H899 if another daemon
    has the state folder.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        *,
        limits: ServiceLimits | None = None,
        forker: Forker | None = None,
        console_port: int | None = None,
    ) -> None:
        self.config, self.policy = config, policy
        if config.role == "analyst":
            raise Code.WRONG_ROLE.error(
                expected="a party that takes part in runs",
                found=f"{config.name}, which is {config.me.kind}",
                fix="nothing: analysts post jobs and ask models, and need not serve",
            )
        check_keys(config)
        _check_certificates(config)
        key = operator_key(config.folder) if config.me.keeps_shares else None
        # Two daemons on one folder would answer for each other.
        self._claim = Claim(config.state.path("daemon.lock"), Code.ALREADY_SERVED)
        with contextlib.ExitStack() as undoing:
            undoing.callback(self._claim.release)
            self.port: RunPort | None = None
            if config.me.takes_calls:
                self.port = RunPort(config.listen or config.me.host, config.me.run_port)
                undoing.callback(self.port.close)
            self._join(key, limits, forker)
            self.console = None if console_port is None else self._make_console(console_port)
            undoing.pop_all()

    def _join(self, key: bytes | None, limits: ServiceLimits | None, forker: Forker | None) -> None:
        config, policy = self.config, self.policy
        remove_leftovers(config.state.root)
        # What lies elsewhere is found out now, and not when a run is to be kept there.
        config.state.folder(models.ROOM)
        self.begun = time.monotonic()
        self.inbox = Inbox()
        self.runs = RunManager(config, policy, self.port, inbox=self.inbox, forker=forker)
        beside_servers = config.role == "owner" and bool(config.servers)
        self.bookkeeper = Bookkeeper(config) if beside_servers else None
        self.answers: QueryService | None = None
        self.service: Service | None = None
        answering: list[object] = [self, RunVerbs(self.runs)]
        if config.role == "server":
            assert key is not None
            remove_withdrawn(config.state, self.runs.store.all())
            assert self.port is not None
            self.answers = QueryService(config, policy, key, self.port)
            answering += [
                UploadVerbs(config, policy, key, self.runs.store),
                ChargeVerbs(self.runs.accounts, self.runs.store),
                EvaluationVerbs(config, policy, key, self.runs.store),
                self.answers,
            ]
        elif config.role in HOLDERS:
            assert self.port is not None
            answering.append(HolderAnswers(config, policy, self.port, self.runs.accounts))
            if config.role == "peer":
                answering.append(PeerPreparations(config, policy, self.port, self.runs))
        library = None if self.answers is None else self.answers.library
        self.catalogue = Catalogue(config, policy, key, library)
        answering.append(self.catalogue)
        if config.me in config.leaders:
            answering.append(self.inbox)
        verbs = {name: one for each in answering for name, one in declared_verbs(each).items()}
        self.letters = LetterBox(config, () if config.me.takes_calls else config.leaders, verbs)
        if config.me.takes_calls:
            self.service = Service(
                config.identity,
                known_callers(config),
                verbs,
                host=config.listen or config.me.host,
                port=config.me.port,
                limits=limits or _limits(policy, config),
                numbers=lambda: party_numbers(config, self.runs),
                open_metrics=policy.open_metrics,
            )

    def _make_console(self, port: int) -> Console:
        # Loaded here: not every daemon has one.
        from hedgerow.parties.console.facts import PartyFacts
        from hedgerow.parties.console.server import Console

        try:
            return Console(PartyFacts(self.config, self.policy, self.runs, self.catalogue), port)
        except HedgerowError:
            if self.service is not None:
                self.service.stop()
            raise

    def start(self) -> Self:
        """Begin to answer requests or letters, to look after runs and to answer queries."""
        address = "none"
        if self.service is not None:
            self.service.start()
            address = ":".join(map(str, self.service.address))
        self.runs.start()
        self.letters.start()
        if self.bookkeeper is not None:
            self.bookkeeper.start()
        if self.answers is not None:
            self.answers.start()
        if self.console is not None:
            self.console.start()
        _log("started", address=address, version=__version__)
        self._warn()
        return self

    def _warn(self) -> None:
        for ending in endings(self.config):
            fields = {"what": "certificate ends soon", "found": ending.found, "fix": ending.fix}
            _logger.warning("certificate", extra={"event": fields})

    def stop(self, patience: float = 30.0) -> None:
        """Take nothing new, finish what was taken, and end; a training waits for the next start."""
        _log("stopping")
        if self.console is not None:
            self.console.stop()
        self.letters.stop()
        if self.bookkeeper is not None:
            self.bookkeeper.stop()
        self.inbox.close()
        self.runs.stop()
        if self.answers is not None:
            self.answers.stop()
        finished = self.service is None or self.service.stop(patience)
        if self.port is not None:
            self.port.close()
        self._claim.release()
        _log("stopped", finished=finished)

    def reload(self) -> bool:
        """Read policy and certificates again; what cannot be used leaves all as it was.

        A session with the other servers that is under way goes on with the certificates that it
        began with. The list of members and the addresses are not read again, because the servers
        agree on them when they meet.

        Returns whether the files were taken; if not, the log has the number of the error.
        """
        config = self.config
        try:
            policy = Policy.load(config.folder)
            restart = PartyConfig.load(config.folder) != config
            check_keys(config)
            _check_certificates(config)
            callers = known_callers(config)
            if self.service is not None:
                self.service.recognise(config.identity, callers, open_metrics=policy.open_metrics)
        except HedgerowError as error:
            fields = {"outcome": error.code.number, "found": error.found, "fix": error.fix}
            _logger.error("reload", extra={"event": {"what": "not reloaded", **fields}})
            return False
        self.policy.become(policy)
        found = {"found": "party.toml has changed, which counts after a restart"}
        others = {caller.name for caller in callers.values()} - {config.name}
        _log("reloaded", members=len(others), **(found if restart else {}))
        self._warn()
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @verb("health", _EVERYBODY, twice="nothing changes.")
    def health(self) -> tuple[Fields, Payload]:
        """Tell that this party is there.

        Reply: ``version``, ``clock``, ``members`` (a hash of their list) and ``seconds``.
        """
        seconds = round(time.monotonic() - self.begun, 1)
        return {**Health.of(self.config).to_fields(), "seconds": seconds}, None


def serve(
    config: PartyConfig,
    policy: Policy,
    *,
    patience: float = 30.0,
    console_port: int | None = None,
    ready: Callable[[str | None], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; logs go to ``state/log.jsonl``.

    SIGHUP reads policy and certificates again, see `Daemon.reload`. Once it is told to stop,
    requests that were taken have `patience` seconds. `ready` is told the address of the console.
    """
    forker = Forker().start()
    # A handler may interrupt anything, so it does nothing but this, which it may.
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        signals.put(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, note)
    with contextlib.closing(forker), logging_to(config, policy):
        daemon = Daemon(config, policy, forker=forker, console_port=console_port).start()
        if ready is not None:
            ready(None if daemon.console is None else daemon.console.url)
        while _next(signals) == signal.SIGHUP:
            daemon.reload()
        daemon.stop(patience)


def _check_certificates(config: PartyConfig) -> None:
    """Refuse, H857, to begin without the certificates of those whom this party must reach."""
    for member in (*config.servers, *config.leaders):
        Certificate.of(config, member.name)


def _limits(policy: Policy, config: PartyConfig) -> ServiceLimits:
    """Return the limits of requests: memory for the largest upload of four members at once.

    A request for letters waits for long, so there is room for one of every member.
    """
    usual = ServiceLimits()
    largest = policy.largest_upload_bytes + 2 * MAX_MANIFEST_BYTES
    return ServiceLimits(
        members=usual.members + len(config.members),
        octets_per_member=max(usual.octets_per_member, largest),
        octets=max(usual.octets, 4 * largest),
    )


def _next(signals: queue.SimpleQueue[int]) -> int:
    """Wait for a signal, and look up now and then.

    A signal that arrives just before the wait begins, or that another thread is handed, does not
    end the wait; its handler runs when this thread is awake.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return signals.get(timeout=_AWAKE)


@contextlib.contextmanager
def logging_to(config: PartyConfig, policy: Policy) -> Iterator[None]:
    """Write the log of this party, one JSON object a line; a file that was rotated is left."""
    handler = BoundedLog(config.state.path(LOG_FILE), policy.log_bytes)
    logger = logging.getLogger("hedgerow")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def _log(what: str, **fields: Any) -> None:
    _logger.info(what, extra={"event": {"what": what, **fields}})
