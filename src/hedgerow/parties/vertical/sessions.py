"""`HolderSessions`: what holders of columns do together outside of runs, each time in a session.

One of them draws a session, invites the others by a request, and all of them meet there.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import ClassVar

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.port import Doorway, RunPort
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.vertical.sides import HolderJob
from hedgerow.parties.wire.client import call_members
from hedgerow.parties.wire.handlers import Caller
from hedgerow.parties.wire.requests import Fields

_logger = logging.getLogger(__name__)


class HolderSessions:
    """Sessions of one kind at one party: `most` at a time."""

    kind: ClassVar[str]
    most: ClassVar[int]
    program: ClassVar[bytes]

    def __init__(self, config: PartyConfig, policy: Policy, port: RunPort) -> None:
        self.config, self.policy, self._port = config, policy, port
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self.most)

    def check_operator(self, caller: Caller) -> None:
        """Refuse, H871, a caller other than this party itself."""
        if caller.name != self.config.name:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"{self.config.name} itself: every {self.config.role} asks for itself",
                found=caller.name,
                fix=f"ask in the folder of your own {self.config.role}",
            )

    def check_holder(self, caller: Caller, job: HolderJob, hash_: str) -> None:
        """Refuse, H871, a caller that holds no columns of a job, or has another job."""
        if caller.name not in job.holders or job.hash != hash_:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"a {self.config.role} of {job.run_id}, with the same job",
                found=caller.name,
            )

    def take_seat(self, stack: ExitStack) -> None:
        """Take part in one more session until the stack ends; H879 if there are too many."""
        if not self._free.acquire(blocking=False):
            raise Code.SERVICE_BUSY.error(
                expected=f"at most {self.most} {self.kind}s at the same time", found="one more"
            )
        stack.callback(self._free.release)

    def invite(self, job: HolderJob, verb: str, fields: Fields, payload: bytes | None) -> None:
        """Have all others come; the first refusal is raised."""
        others = [self.config.member(name) for name in job.holders if name != self.config.name]
        for reply in call_members(self.config, others, verb, fields, payload).values():
            if isinstance(reply, HedgerowError):
                raise reply

    def meet_holders(self, job: HolderJob, session: bytes, doorway: Doorway) -> TLSNetwork:
        """Return the network of a session once all are there."""
        config = self.config
        return TLSNetwork(
            job.holders.index(config.name),
            config.endpoints(job.holders),
            config.identity,
            session=session,
            program=hashlib.sha256(self.program + job.hash.encode()).digest(),
            timeout=config.timeouts.step,
            meeting_timeout=config.timeouts.connect,
            listener=doorway,
        )

    def come(self, job: HolderJob, by: str, work: Callable[[], object]) -> None:
        """Do, in a thread of its own, what this party was invited to; it has taken a seat."""

        def attend() -> None:
            event = {"run": job.run_id, "by": by}
            try:
                work()
            except HedgerowError as error:
                event |= {"outcome": error.code.number, "found": error.found}
                _logger.warning(self.kind, extra={"event": event})
            except Exception:
                _logger.exception(self.kind, extra={"event": {**event, "outcome": "failure"}})
            finally:
                self._free.release()

        threading.Thread(target=attend, name=self.kind, daemon=True).start()
