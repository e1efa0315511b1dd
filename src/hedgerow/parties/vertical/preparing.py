"""Peers make ahead what a run will use up, while it waits, for an approval for instance.

Any peer of a run may have all of them do so (``peers-prepare``): the correlated randomness of the
whole tree follows from the job alone. Each keeps its part for the first attempt (`prepared`).

Reveals: nothing of any rows, which nobody reads.
"""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack

from hedgerow.errors import Code
from hedgerow.net.port import Doorway, RunPort
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.agreement import confirm
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.stages import PREPARED
from hedgerow.parties.runs.verbs import Hash, RunFields, Session
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.meters import RunMeter
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.prepared import MOST_TIMES, PreparedStock
from hedgerow.parties.vertical.sessions import HolderSessions
from hedgerow.parties.wire.handlers import Caller, verb
from hedgerow.parties.wire.requests import Fields
from hedgerow.protocols.pivot.programs import VERSION, prepare_stock

_LEAVES = (
    "a stock of correlated randomness, which goes with the first attempt of the run, and a line of "
    f"the trail: `state_bytes_per_member`. At most {MOST_TIMES} times for a run, one at a time."
)


class MeetPeersFields(RunFields):
    """A run, the hash of its job, and the session."""

    hash: Hash
    session: Session


class PeerPreparations(HolderSessions):
    """Have all peers of a run prepare it, and attend when another one asks."""

    kind, most = "preparation", 1
    program = b"hedgerow/peers prepare/%d" % VERSION

    def __init__(
        self, config: PartyConfig, policy: Policy, port: RunPort, runs: RunManager
    ) -> None:
        super().__init__(config, policy, port)
        self._runs = runs

    @verb("peers-prepare", ("peer",), twice="it is made anew.", leaves=_LEAVES)
    def ask(self, caller: Caller, fields: RunFields) -> tuple[Fields, None]:
        """Make ahead, with the other peers, what a run uses up; for the operator of this one.

        Reply: ``sent``, bytes of payload by this peer, ``kept``, bytes on its disk, ``seconds``.
        """
        self.check_operator(caller)
        job, session = self._job(fields.run, caller), secrets.token_bytes(16)
        with ExitStack() as stack:
            self.take_seat(stack)
            doorway = stack.enter_context(self._port.expect(session))
            told = {"run": job.run_id, "hash": job.hash, "session": session.hex()}
            self.invite(job, "peers-meet", told, None)
            return self._make(job, session, doorway), None

    @verb("peers-meet", ("peer",), twice="a session is met once.", leaves=_LEAVES)
    def meet(self, caller: Caller, fields: MeetPeersFields) -> tuple[Fields, None]:
        """Come to a preparation that another peer of a run has asked for."""
        job = self._job(fields.run, caller)
        self.check_holder(caller, job, fields.hash)
        session = bytes.fromhex(fields.session)
        with ExitStack() as stack:
            self.take_seat(stack)
            doorway = self._port.expect(session)
            # The thread gives the seat back.
            stack.pop_all()
        self.come(job, caller.name, lambda: self._make(job, session, doorway))
        return {}, None

    def _job(self, run_id: str, caller: Caller) -> PivotJob:
        run = self._runs.check_not_begun(run_id)
        if not isinstance(run.job, PivotJob):
            raise Code.BAD_PARAMETER.error(
                expected="a run among peers, which prepare it",
                found=f"one of protocol {run.job.protocol!r}",
            )
        PreparedStock(self.config.state, run.id).check_times()
        self._runs.store.owe(self.policy.quota(caller.name))
        return run.job

    def _make(self, job: PivotJob, session: bytes, doorway: Doorway) -> Fields:
        state, begun = self.config.state, time.monotonic()
        with doorway:
            # One that fails has taken the time of all peers, too.
            own = PreparedStock(state, job.run_id)
            own.count()
            with self.meet_holders(job, session, doorway) as network:
                stock = prepare_stock(network, job.make_plan())
                own.keep(session, stock, operator_key(self.config.folder))
                # Who has asked is told that all have it.
                confirm(network, session.ljust(32, b"\0"))
                network.farewell(range(network.n))
                sent = network.meter.snapshot()
        # Attempt 0: what was sent before the first one.
        RunMeter(open_store(state), job.run_id, 0).write(sent, PREPARED)
        kept = sum(array.nbytes for array in stock.values())
        return {
            "sent": sum(sent.payload),
            "kept": kept,
            "seconds": round(time.monotonic() - begun, 3),
        }
