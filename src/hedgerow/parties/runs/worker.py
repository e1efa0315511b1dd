"""One attempt of a run at one party: a process of its own, started by the daemon.

``python -m hedgerow.parties.runs.worker FOLDER RUN ATTEMPT SESSION DOORWAY MEMBER...``

It says how it gets on in lines of JSON on its standard output, the last of which is ``done`` or
``error``. Its standard input is a pipe that the daemon holds open: when the daemon ends, however it
ends, the pipe closes and the worker ends too.

1. Meet those who take part in the session of the attempt; the program is the hash of the job.
2. Do what this party does in such a job (`part.Part`), and keep what comes of it.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import Listener
from hedgerow.net.port import Doorway
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.child import DONE
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

REFUSED, DEFECT, TRY_AGAIN = 1, 70, 75
"""Exit codes: the run cannot be done; a defect; another attempt may help."""

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
        self.key = operator_key(folder) if self.config.role == "server" else None
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
        self.meter.write(self.network.meter.snapshot())

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


def main(arguments: Sequence[str]) -> int:
    """Be a worker; return its exit code."""
    _end_with_daemon()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    folder, run, attempt, session, pipe, *members = arguments
    try:
        doorway = None if int(pipe) < 0 else Doorway(socket.socket(fileno=int(pipe)))
        parts = Path(folder), run, int(attempt), bytes.fromhex(session), doorway, members
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
