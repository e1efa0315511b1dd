"""`Serving`: a server's side of a DP-TopDown run on secret counts.

It comes to the coordinator as owners do, and is asked two kinds of things:

1. Its sealing key, once: made for this run alone, signed with the key behind its certificate, and
   forgotten when the model is here (`hedgerow.parties.consortium.sealing_keys`).
2. Numbers: it meets the two other servers over mutual TLS, in a session of its own for every
   attempt, and answers with what they release (`hedgerow.protocols.topdown.server`). A meeting that
   fails is no answer; the coordinator asks all three again, when all of them are there.

Its key, and its shares of what is about to be opened, are encrypted with the operator's key and on
the disk before anything of them leaves.

Reveals: to the public, the released numbers; to this server, uniform numbers and who was left out.
Cost: `protocols.topdown.secure_splits.cost_answer` for every question, and one meeting.
"""

from __future__ import annotations

import json
import logging
import time

from hedgerow import jsonfile
from hedgerow.crypto.sealed import KEY_BYTES, SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.sealing_keys import RUN_BYTES, SignedKey, digits
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.worker import RunMeter
from hedgerow.parties.topdown.job import TopDownJob, check_part
from hedgerow.parties.topdown.participant import Participant
from hedgerow.parties.topdown.relay import KeyLetter, read_at_server
from hedgerow.protocols.topdown.server import SecureServers

MEETING_SECONDS = 20.0
"""For the other servers to come: all three have been asked at the same moment."""
_AGAIN = {
    Code.NETWORK_CLOSED,
    Code.PEER_TIMEOUT,
    Code.PEER_GONE,
    Code.PEER_STOPPED,
    Code.BAD_FRAME,
    Code.SESSION_MISMATCH,
}
"""What another attempt may mend."""
_FORGOTTEN = b"the model is here"
_logger = logging.getLogger(__name__)


class Serving(Participant):
    """A server in a run; use `take_part` to see it through.

    With an `insecure_seed`, for tests, nothing is private, the policy must allow it, and owners
    refuse it. H905 if this party is no server, H908 if it has no port for such runs, H911 for a job
    that needs no servers, H858 if policy or account refuse, H840 if what was kept is lost, H865 or
    H866 for the operator's key.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        job: TopDownJob,
        *,
        insecure_seed: int | None = None,
    ) -> None:
        check_part(config, "server")
        self._number = config.number
        if job.plan.method != "secure-counts":
            raise Code.JOB_WITHOUT_SERVERS.error(
                expected="method = 'secure-counts', which needs servers",
                found=f"method = {job.plan.method!r}",
            )
        super().__init__(config, policy, job, private=insecure_seed is None)
        self._roster = config.roster("topdown")
        self._seed = insecure_seed
        self._session = b""
        self._run: bytes | None = None
        self._network: TLSNetwork | None = None
        self._attempts = 0
        self._failing: tuple[bytes, float] | None = None
        self._open(operator_key(config.folder))

    def _begin(self) -> None:
        plan, data = self.job.make_plan(), self.memory.data
        if data == _FORGOTTEN:
            if not self.model.exists():
                raise Code.ANSWERS_LOST.error(found=f"no {self.model}, at the end of the run")
            return
        if data is None:
            self._key = SealingKey()
            self._servers = SecureServers(
                plan,
                {self._number: self._key},
                self._meet,
                keep=self._keep,
                seed=self._seed,
                ledger=self._ledger,
            )
            self._keep(self._servers.state())
            return
        line, _, state = data.partition(b"\n")
        head = jsonfile.loads(line, Code.ANSWERS_LOST)
        secret = digits(head.get("key"), KEY_BYTES)
        self._run = digits(head.get("run"), RUN_BYTES)
        if secret is None:
            raise Code.ANSWERS_LOST.error(found="a state without its sealing key")
        self._key = SealingKey(secret)
        self._servers = SecureServers.resume(
            plan,
            state,
            keys={self._number: self._key},
            meet=self._meet,
            keep=self._keep,
            seed=self._seed,
            ledger=self._ledger,
        )

    def _answer(self, ask: bytes) -> bytes | None:
        """Answer a question; None if the servers did not come together, and are to be asked again.

        H760 for another run of the same job, H811 if the port is taken, or what the network says
        once that has lasted for ``timeouts.rejoin``; else as `SecureServers.answers`.
        """
        letter = read_at_server(ask)
        if isinstance(letter, KeyLetter):
            return self._sign_key(letter.run)
        self._session, self._network = letter.session, None
        try:
            answer = self._servers.answer(letter.ask)
        except HedgerowError as error:
            if error.code not in _AGAIN or self._has_lasted(letter.ask):
                raise
            fields = {"run": self.job.run_id, "outcome": error.code.number, "found": error.found}
            _logger.warning("attempt", extra={"event": {"what": "topdown attempt", **fields}})
            return None
        finally:
            # The next question has a session of its own.
            self._servers.close()
            self._write_meter()
        self._failing = None
        return answer

    def _sign_key(self, run: bytes) -> bytes:
        if self._run is None:
            self._run = run
            self._keep(self._servers.state())
        if run != self._run:
            raise Code.SEALED_REFUSED.error(
                expected=f"run {self._run.hex()}, for which this server has signed its key",
                found="another run of the same job",
                fix="have the coordinator go on with what it has kept, or begin a new job",
            )
        key = SignedKey.sign(self._key, self.config, self.job, run, private=self.private)
        return key.to_bytes()

    def _meet(self) -> TLSNetwork:
        me, timeouts = self.config.me, self.config.timeouts
        self._network = TLSNetwork(
            self._number,
            self._roster,
            self.config.identity,
            session=self._session,
            program=self.job.hash.encode(),
            timeout=timeouts.step,
            meeting_timeout=min(timeouts.step, MEETING_SECONDS),
            listener=listen(self.config.listen or me.host, me.topdown_port),
        )
        return self._network

    def _keep(self, state: bytes) -> None:
        run = "" if self._run is None else self._run.hex()
        head = json.dumps({"key": self._key.secret.hex(), "run": run}, separators=(",", ":"))
        self.memory.keep(head.encode() + b"\n" + state)

    def _has_lasted(self, ask: bytes) -> bool:
        """Whether attempts at a question have failed for too long."""
        now = time.monotonic()
        if self._failing is None or self._failing[0] != ask:
            self._failing = ask, now
        return now - self._failing[1] > self.config.timeouts.rejoin

    def _write_meter(self) -> None:
        if self._network is not None:
            self._attempts += 1
            meter = RunMeter(self.folder / "meter.json", self._attempts)
            meter.write(self._network.meter.snapshot())

    def _after_model(self) -> None:
        """Forget the sealing key: parts that somebody has kept cannot be opened any more."""
        self.memory.keep(_FORGOTTEN)
