"""One attempt of a run at one server: a process of its own, started by the daemon.

``python -m hedgerow.parties.runs.worker FOLDER RUN ATTEMPT SESSION DOORWAY``

It says how it gets on in lines of JSON on its standard output, the last of which is ``done`` or
``error``. Its standard input is a pipe that the daemon holds open: when the daemon ends, however it
ends, the pipe closes and the worker ends too.

1. Meet the other servers in the session of the attempt; the program is the hash of the job.
2. Agree on the stages that all three have done, and forget what goes beyond.
3. Rehearse what will be published. Compare the uploads, make a table of them and train. Every
   stage is kept by all servers before the next one begins; every charge is in the ledger, on the
   disk, before noise is drawn.
4. Compare the ledgers; keep the model as the last stage. From here on all servers have it, and
   whoever fails now finds it done in the next attempt.
5. Take leave, and put the model where questions are answered.
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

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import Listener
from hedgerow.net.meter import Reading, Traffic
from hedgerow.net.port import Doorway
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.child import DONE
from hedgerow.parties.runs.stages import Arrays, KeptStage, Stages
from hedgerow.parties.runs.store import read_job
from hedgerow.parties.store import models
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import Claim, remove_leftovers, replacing
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.uploads import held_uploads, open_upload
from hedgerow.parties.wire.logs import JsonLines
from hedgerow.parties.wire.requests import error_fields
from hedgerow.privacy import Ledger
from hedgerow.protocols.contract import Context, guarantees
from hedgerow.protocols.hidden import programs
from hedgerow.protocols.kinds import is_published, kind_named
from hedgerow.protocols.run import rehearse

REFUSED, DEFECT, TRY_AGAIN = 1, 70, 75
"""Exit codes: the run cannot be done; a defect; another attempt may help."""

MODEL = "model"
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
_SLACK = 1 + 1e-9
_logger = logging.getLogger(__name__)


class RunMeter:
    """What one server has sent in a run, in all of its attempts, for one of them.

    ``meter.json`` is a meter (`hedgerow.net.meter.Reading`) of all attempts together, and has under
    ``attempts`` the sums of each. It is written whenever a stage is kept, so an attempt whose
    process is killed counts as far as its last stage.
    """

    def __init__(self, path: Path, attempt: int) -> None:
        self.path, self.attempt = path, attempt
        self._before: Reading | None = None
        self._attempts: list[dict[str, Any]] = []
        if path.exists():
            try:
                text = path.read_text()
                self._before = Reading.from_json(text)
                self._attempts = list(json.loads(text).get("attempts", ()))
            except (HedgerowError, ValueError, OSError) as error:
                # Nothing depends on it, so no run may fail for it.
                event = {"file": str(path), "found": str(error)}
                _logger.warning("meter", extra={"event": event})

    def write(self, reading: Reading) -> None:
        """Write what this attempt has sent so far, added to what came before it; or H869."""
        own = _total(reading)._asdict()
        every = reading if self._before is None else add_readings(self._before, reading)
        attempts = [*self._attempts, {"attempt": self.attempt, **own}]
        document = {**json.loads(every.to_json()), "attempts": attempts}
        with replacing(self.path) as file:
            file.write(json.dumps(document).encode())


def add_readings(before: Reading, after: Reading) -> Reading:
    """Add what the same parties have sent in two sessions, step by step."""
    keys = dict.fromkeys([*before.traffic, *after.traffic])
    traffic = {key: before.at(*key).plus(after.at(*key)) for key in keys}
    return Reading(sorted({*before.parties, *after.parties}), traffic)


def _total(reading: Reading) -> Traffic:
    total = Traffic()
    for party in reading.parties:
        total = total.plus(reading.total(party))
    return total


class RunWorker:
    """One attempt; the other servers call at the listener."""

    def __init__(
        self, folder: Path, run: str, attempt: int, session: bytes, listener: Listener
    ) -> None:
        self.config = PartyConfig.load(folder)
        self.state, self.server = self.config.state, self.config.number
        self.key = operator_key(folder)
        self.run, self.attempt, self.session = run, attempt, session
        self._listener = listener
        self.job = read_job(self.state, run)
        self.plan = self.job.make_plan()
        self.begun = time.monotonic()
        self.network: TLSNetwork | None = None
        self.meter = RunMeter(self.state.path("runs", run, "meter.json"), attempt)
        self._claim = Claim(self.state.path("runs", run, "lock"))
        remove_leftovers(self.state.folder("runs", run, "stages"))
        self.stages = Stages(self.state, run, self.job.hash, self.server, self.key)
        self.ledger = DurableLedger(open_store(self.state), run, domain=self.plan.domain)

    def work(self) -> None:
        """Do all of it; numbered errors where it cannot be done."""
        try:
            self._work()
        finally:
            self._claim.release()

    def _work(self) -> None:
        with self._meet() as self.network, self._metering():
            common = agreeing.agree_on_stages(self.network, [k.tag for k in self.stages.kept])
            self.stages.begin(self.session, common, lambda: len(self.ledger.entries))
            self.stages.confirm_with(lambda tag: agreeing.confirm(self._network, tag))
            self.stages.on_load = lambda kept: self.ledger.mark_reached(kept.entries)
            self.stages.on_save = self._on_stage
            self.say("met", stages=common)
            made = self.stages.load(MODEL)
            if made is None:
                made = self._train()
                self.stages.save(MODEL, made)
            self.network.farewell(range(agreeing.SERVERS))
        self._write_model(made)
        self.say("done", model=self.job.model)

    def say(self, event: str, **fields: Any) -> None:
        """Write one line of progress."""
        spent: dict[str, Any] = {"seconds": round(time.monotonic() - self.begun, 3)}
        if self.network is not None:
            total = self.network.meter.snapshot().total(self.server)
            spent |= {"bytes": total.wire, "rounds": total.rounds}
        print(json.dumps({"event": event, **fields, **spent}), flush=True)

    @property
    def _network(self) -> TLSNetwork:
        assert self.network is not None
        return self.network

    def _meet(self) -> TLSNetwork:
        me, timeouts = self.config.me, self.config.timeouts
        others = [server.name for server in self.config.servers if server != me]
        self.say("meeting", waiting_for=others)
        return TLSNetwork(
            self.server,
            self.config.roster("run"),
            self.config.identity,
            session=self.session,
            program=self.job.hash.encode(),
            timeout=timeouts.step,
            meeting_timeout=min(timeouts.step, timeouts.rejoin),
            listener=self._listener,
        )

    def _train(self) -> Arrays:
        job, plan, kind = self.job, self.plan, kind_named(self.job.kind)
        if is_published(job.kind):
            rehearse(job.kind, job.make_plan(capacity=1))
        held = [open_upload(self.state, self.key, upload) for upload in job.uploads]
        manifests = [manifest for manifest, _ in held]
        digests = {manifest.id: manifest.digest for manifest in manifests}
        agreeing.compare_uploads(self._network, digests)
        self.say("table", slots=plan.n_slots, columns=plan.layout.n_columns)
        made = programs.server(
            Context(
                self._network,
                tuple(server.name for server in self.config.servers),
                plan,
                job,
                held_uploads(job, {self.server: held}),
                self.ledger,
                self.stages,
                progress=lambda numbers: self.say("level", **numbers),
            )
        )
        arrays: Arrays = {f"share {name}": data for name, data in made.shares.items()}
        if made.public is not None:
            privacy = json.loads(self.ledger.to_json())
            arrays["public"] = _as_array(kind.document(made.public, privacy))
        self._check_ledger()
        arrays["ledger"] = _as_array(self.ledger.to_json())
        arrays["leakage"] = _as_array(made.leakage.to_json())
        return arrays

    def _check_ledger(self) -> None:
        """Refuse a training that cost other than was charged to the account, or other elsewhere."""
        code, spent = Code.BAD_LEDGER_FILE, guarantees(self.ledger)
        for audience, cost in self.job.costs().items():
            found = spent[audience]
            if found.epsilon > cost.epsilon * _SLACK or found.delta > cost.delta * _SLACK:
                raise code.error(expected=f"{cost} for {audience}", found=f"{found}")
        agreeing.compare_texts(self._network, "ledger", self.ledger.to_json(), code)

    def _on_stage(self, kept: KeptStage) -> None:
        self.say("stage", stage=kept.stage, number=kept.number)
        self.meter.write(self._network.meter.snapshot())

    @contextmanager
    def _metering(self) -> Iterator[None]:
        """Write down what was sent, however the attempt ends."""
        try:
            yield
        except BaseException:
            # What has ended it says more than a full disk.
            with suppress(HedgerowError):
                self.meter.write(self._network.meter.snapshot())
            raise
        self.meter.write(self._network.meter.snapshot())

    def _write_model(self, made: Arrays) -> None:
        job, last = self.job, self.stages.last()
        assert last is not None
        public = made.get("public")
        manifest = models.ModelManifest(
            name=job.model,
            kind=job.kind,
            server=self.server,
            plan=self.plan.to_dict(),
            run=self.run,
            job=job.hash,
            tag=last.tag.hex(),
            populations=(job.population,),
            analysts=job.analysts,
        )
        ledger = _as_text(made["ledger"])
        # What is kept is read once more, every check replayed, before it is relied on.
        Ledger.from_json(ledger)
        models.write_model(
            self.state,
            self.key,
            manifest,
            {
                name.removeprefix("share "): np.asarray(array)
                for name, array in made.items()
                if name.startswith("share ")
            },
            ledger=ledger,
            leakage=_as_text(made["leakage"]),
            tree=None if public is None else json.loads(_as_text(public)),
        )


def _as_array(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


def _as_text(array: NDArray[np.uint8]) -> str:
    return array.tobytes().decode()


def main(arguments: Sequence[str]) -> int:
    """Be a worker; return its exit code."""
    _end_with_daemon()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    folder, run, attempt, session, pipe = arguments
    try:
        doorway = Doorway(socket.socket(fileno=int(pipe)))
        RunWorker(Path(folder), run, int(attempt), bytes.fromhex(session), doorway).work()
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
