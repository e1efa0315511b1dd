"""`Relay`: a coordinator's questions where there are servers, under the members' names.

Before anything else every server is asked for its sealing key, signed for this run
(`consortium.sealing_keys`); then come the questions of the protocol, to owners with the three
keys, to servers with a session in which they meet. Whoever carries the messages treats all
participants alike (`hedgerow.parties.topdown.turns.Conductor`).

Reveals: to the owners, the servers' public keys; to the servers nothing.
Cost: one more round, of three short messages.
"""

from __future__ import annotations

import secrets

from hedgerow.errors import Code
from hedgerow.net.frames import SESSION_BYTES
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.sealing_keys import RUN_BYTES, SignedKey, digits
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.letters import KeyLetter, OwnerLetter, ServerLetter
from hedgerow.parties.topdown.log import RunLog
from hedgerow.parties.topdown.record import BEGUN
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.parts import SERVER_NAMES


class Relay:
    """The conductor of a run with servers.

    Parameters
    ----------
    config : PartyConfig
        Of the coordinator.
    job : TopDownJob
    coordinator : Coordinator
    run : bytes of length 16
        Number of the run (`run_number`), which the servers sign with their keys.

    Attributes
    ----------
    coordinator : Coordinator
    """

    def __init__(
        self, config: PartyConfig, job: TopDownJob, coordinator: Coordinator, run: bytes
    ) -> None:
        self.coordinator = coordinator
        self._config, self._job, self._run = config, job, run
        # By the names of the servers, as far as they are here.
        self._keys: dict[str, SignedKey] = {}
        self._servers = tuple(server.name for server in config.servers)
        self._of_member = dict(zip(self._servers, SERVER_NAMES, strict=True))
        self._session = secrets.token_bytes(SESSION_BYTES)

    @property
    def round(self) -> int:
        """Number of the round."""
        return self.coordinator.round

    def asks(self) -> dict[str, bytes]:
        """Return who has yet to answer, and what: the servers with their keys come first."""
        missing = self._missing()
        if missing:
            return dict.fromkeys(missing, KeyLetter(self._run).to_bytes())
        found: dict[str, bytes] = {}
        keys = tuple(self._keys[name] for name in self._servers)
        for name, ask in self.coordinator.asks().items():
            if name in SERVER_NAMES:
                member = self._servers[SERVER_NAMES.index(name)]
                found[member] = ServerLetter(self._session, ask).to_bytes()
            else:
                found[name] = OwnerLetter(self._run, keys, ask).to_bytes()
        return found

    def hear(self, name: str, answer: bytes) -> None:
        """Take an answer; a numbered error, and no change, if it cannot be used.

        Raises
        ------
        HedgerowError
            H760 for a key that its server has not signed for this run; else as `Coordinator.hear`.
        """
        missing = self._missing()
        if name in missing:
            key = SignedKey.from_bytes(answer)
            # The owners rely on their own check; here it shows early who has gone wrong.
            key.check(self._config, self._job, self._run, name)
            self._keys[name] = key
            return
        if missing:
            raise Code.UNEXPECTED_ANSWER.error(found=f"an answer of {name!r}, who is not asked")
        self.coordinator.hear(self._of_member.get(name, name), answer)

    def lost(self, name: str) -> None:
        """Go on without an owner, as `Coordinator.lost`; without a server nobody can: H894."""
        if name in self._servers:
            self.coordinator.again()
            raise Code.SERVER_MISSING.error(
                expected=f"an answer of the server {name}, without which nothing can be released",
                found="none",
                fix=f"start {name} again, then the coordinator and the others: they go on where "
                "they were",
            )
        self.coordinator.lost(name)

    def together(self) -> tuple[str, ...]:
        """Return who of those that are asked now can only answer together."""
        return self._servers if not self._missing() and self.coordinator.together() else ()

    def again(self) -> None:
        """Begin another attempt of the servers, in a session of its own."""
        self._session = secrets.token_bytes(SESSION_BYTES)
        self.coordinator.again()

    def _missing(self) -> list[str]:
        """Servers whose keys are not here yet."""
        return [name for name in self._servers if name not in self._keys]


def run_number(log: RunLog) -> bytes:
    """Return the number of a run: that of its log, or one that was never used before.

    Raises
    ------
    HedgerowError
        H867 for a log that does not begin with it.
    """
    for entry, _ in log.each():
        number = digits(entry.get("run"), RUN_BYTES)
        if entry["what"] != BEGUN or number is None:
            raise Code.JOURNAL_DAMAGED.error(found="a run without a number")
        return number
    number = secrets.token_bytes(RUN_BYTES)
    log.append([{"what": BEGUN, "run": number.hex()}])
    return number
