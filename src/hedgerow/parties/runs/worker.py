"""Attempts of runs at one party, each in a process of its own, started by the daemon.

One process forks them (`child.Forker`): it has loaded what an attempt needs and holds nothing of
any. The daemon forks it when it starts; ``python -m hedgerow.parties.runs.worker``, with a socket
for orders as its standard input, takes the place of one that was lost.

A worker says how it gets on in lines of JSON on its standard output, the last of which is ``done``
or ``error``; the forker adds its exit code. Its standard input is a pipe that the daemon holds
open: when the daemon ends, however it ends, the pipe closes and the worker ends too.

1. Meet those who take part in the session of the attempt; the program is the hash of the job.
2. Do what this party does in such a job (`part.Part`), and keep what comes of it.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from hedgerow.compiled import load_compiler
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import Listener
from hedgerow.net.port import Doorway
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.runs.part import Attempt
from hedgerow.parties.runs.parts import part_of
from hedgerow.parties.runs.stages import KeptStage, Stages
from hedgerow.parties.runs.store import job_of_run
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import Claim, remove_leftovers
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.meters import RunMeter
from hedgerow.parties.wire.logs import JsonLines
from hedgerow.parties.wire.requests import error_fields

DONE, REFUSED, DEFECT, TRY_AGAIN = 0, 1, 70, 75
"""Exit codes: all is well; the run cannot be done; a defect; another attempt may help."""
ENDED = "ended"
"""Event of the last line of a worker, which the forker writes: it has the exit code."""
_MAX_ORDER = 1 << 17

_AGAIN = {
    Code.NETWORK_CLOSED,
    Code.PEER_TIMEOUT,
    Code.PEER_GONE,
    Code.PEER_STOPPED,
    Code.BAD_FRAME,
    Code.SESSION_MISMATCH,
    Code.CANNOT_LISTEN,
    Code.JOURNAL_IN_USE,
}
_logger = logging.getLogger(__name__)


class RunWorker:
    """One attempt of `members`, by name; those who call come to the listener, if there is one."""

    def __init__(
        self,
        folder: Path,
        run: str,
        attempt: int,
        session: bytes,
        listener: Listener | None,
        members: Sequence[str],
    ) -> None:
        self.config = PartyConfig.load(folder)
        state = self.config.state
        self.key = operator_key(folder) if self.config.me.keeps_shares else None
        self.run, self.session, self.members = run, session, tuple(members)
        self._listener = listener
        self.job = job_of_run(state, run)
        self.part = part_of(self.config, self.job)
        self.begun = time.monotonic()
        self.network: TLSNetwork | None = None
        self._claim = Claim(state.path("runs", run, "lock"))
        remove_leftovers(state.folder("runs", run, "stages"))
        store = open_store(state)
        self.meter = RunMeter(store, run, attempt)
        number = self.members.index(self.config.name)
        self.stages = Stages(state, run, self.job.hash, number, self.key)
        self.stages.on_save = self._on_stage
        self.ledger = DurableLedger(store, run, domain=self.job.public_domain)
        self.memory = RunMemory(
            store, run, self.config.name, self.key, on_keep=lambda: self.say("kept")
        )

    def work(self) -> None:
        """Do all of it; numbered errors where it cannot be done."""
        try:
            self.memory.begin(charged=bool(self.ledger.entries))
            with self._meet() as self.network, self._metering():
                self.say("met")
                self.part.attend(
                    Attempt(
                        self.run,
                        self.session,
                        self.network,
                        self.members,
                        self.ledger,
                        self.stages,
                        self.memory,
                        self.key,
                        self.say,
                    )
                )
            self.say("done", model=self.job.model_name)
        finally:
            self._claim.release()

    def say(self, event: str, **fields: Any) -> None:
        """Write one line of progress."""
        spent: dict[str, Any] = {"seconds": round(time.monotonic() - self.begun, 3)}
        if self.network is not None and self.part.traffic_is_public:
            total = self.network.meter.snapshot().total(self.network.party)
            spent |= {"bytes": total.wire, "rounds": total.rounds}
        print(json.dumps({"event": event, **fields, **spent}), flush=True)

    def _meet(self) -> TLSNetwork:
        config, timeouts = self.config, self.config.timeouts
        others = [name for name in self.members if name != config.name]
        self.say("meeting", waiting_for=others)
        return TLSNetwork(
            self.members.index(config.name),
            config.endpoints(self.members),
            config.identity,
            session=self.session,
            program=self.job.hash.encode(),
            timeout=timeouts.step,
            meeting_timeout=min(timeouts.step, timeouts.rejoin),
            listener=self._listener,
        )

    def _on_stage(self, kept: KeptStage) -> None:
        assert self.network is not None
        self.say("stage", stage=kept.stage, number=kept.number)
        self.meter.write(self.network.meter.snapshot(), kept.stage)

    @contextmanager
    def _metering(self) -> Iterator[None]:
        """Write down what was sent, however the attempt ends."""
        assert self.network is not None
        try:
            yield
        except BaseException:
            # What has ended it says more than a full disk.
            with suppress(HedgerowError):
                self.meter.write(self.network.meter.snapshot())
            raise
        self.meter.write(self.network.meter.snapshot())


def attempt_run(
    folder: str, run: str, attempt: str, session: str, *members: str, doorway: int | None
) -> int:
    """Be a worker; return its exit code."""
    _end_with_daemon()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    try:
        listener = None if doorway is None else Doorway(socket.socket(fileno=doorway))
        parts = Path(folder), run, int(attempt), bytes.fromhex(session), listener, members
        RunWorker(*parts).work()
    except HedgerowError as error:
        _logger.warning("attempt", extra={"event": {"run": run, "outcome": error.code.number}})
        return _fail(error, TRY_AGAIN if error.code in _AGAIN else REFUSED)
    except Exception as error:
        # Its words may quote data, so they go nowhere; the log has its place.
        _logger.exception("failure", extra={"event": {"run": run, "outcome": "failure"}})
        failed = Code.PARTY_FAILED.error(
            expected=f"attempt {attempt} of run {run} to end by itself",
            found=type(error).__name__,
            fix=f"look into worker.log of this run, in state/runs/{run}",
        )
        return _fail(failed, DEFECT)
    return DONE


def _fail(error: HedgerowError, code: int) -> int:
    fields = {"event": "error", **error_fields(error), "again": code == TRY_AGAIN}
    print(json.dumps(fields), flush=True)
    return code


def _end_with_daemon() -> None:
    """End this process when the other end of its standard input is closed."""

    def watch() -> None:
        # Not through sys.stdin, whose lock this thread would hold at the end of the process.
        while os.read(0, 1 << 10):
            pass
        os._exit(TRY_AGAIN)

    threading.Thread(target=watch, name="daemon", daemon=True).start()


class _Forking:
    """The process that forks workers.

    `workers`: the process and the output of each, by the number that the daemon gives it.
    """

    def __init__(self, orders: socket.socket) -> None:
        self.orders = orders
        self.workers: dict[int, tuple[int, int]] = {}
        self.ended, self.wake = socket.socketpair()

    def take_orders(self) -> None:
        """Fork and kill until the daemon ends."""
        load_compiler()
        # Ctrl-C is for the daemon, which ends its worker.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.wake.setblocking(False)
        signal.set_wakeup_fd(self.wake.fileno())
        while True:
            ready, _, _ = select.select([self.orders, self.ended], [], [])
            if self.ended in ready:
                self.ended.recv(1 << 10)
                for number in list(self.workers):
                    self._bury(number, os.WNOHANG)
            if self.orders in ready:
                data, descriptors, _, _ = socket.recv_fds(self.orders, _MAX_ORDER, 4)
                if not data:
                    return
                order = json.loads(data)
                if isinstance(order, int):
                    self._kill(order)
                else:
                    self._fork(order, descriptors)

    def _fork(self, order: list[str], descriptors: list[int]) -> None:
        number, *arguments = order
        pid = os.fork()
        if not pid:
            self._become_worker(arguments, descriptors)
        stdin, output, *others = descriptors
        self.workers[int(number)] = pid, output
        for descriptor in (stdin, *others):
            os.close(descriptor)

    def _become_worker(self, arguments: list[str], descriptors: list[int]) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for own in (self.orders, self.ended, self.wake):
            own.close()
        for _, output in self.workers.values():
            os.close(output)
        for name, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, name)
            os.close(descriptor)
        code = DEFECT
        try:
            code = attempt_run(*arguments, doorway=next(iter(descriptors[3:]), None))
        finally:
            # Nothing that the forker has loaded is this process's to put in order.
            os._exit(code)

    def _kill(self, number: int) -> None:
        if number in self.workers:
            os.kill(self.workers[number][0], signal.SIGKILL)
            self._bury(number)
        self.orders.send(b".")

    def _bury(self, number: int, options: int = 0) -> None:
        """Tell with which code a worker has ended, if it has."""
        pid, descriptor = self.workers[number]
        found, status = os.waitpid(pid, options)
        if found:
            del self.workers[number]
            code = os.waitstatus_to_exitcode(status)
            with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as output:
                # It may have ended in the middle of a line.
                output.write(f"\n{json.dumps({'event': ENDED, 'code': code})}\n".encode())


def take_orders(orders: socket.socket) -> None:
    """Fork and kill workers as the daemon orders, until it ends."""
    _Forking(orders).take_orders()


if __name__ == "__main__":
    take_orders(socket.socket(fileno=0))
