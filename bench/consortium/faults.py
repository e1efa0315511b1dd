"""One thing that goes wrong for a while: a party that is killed, frozen or cut off, at a moment."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from subprocess import Popen
from typing import Literal

from bench.consortium.links import CUTS, Links
from bench.consortium.parties import OWNER, SERVERS, Consortium
from tests.parties.cases import Case
from tests.parties.forks import offspring

Phase = Literal["upload", "training", "queries"]
PHASES: tuple[Phase, ...] = ("upload", "training", "queries")
_FOR_GOOD = 10
"""One server in so many that fall over in training comes back too late."""
_LATE = 8.0


class Strike(ABC):
    """Something that begins at `moment`, in seconds from `begin`, and is over `away` seconds later.

    `struck` and `over`: when that was; `failed`: what went wrong with it itself.
    """

    moment: float
    away: float

    def __init__(self) -> None:
        self._thread = threading.Thread(target=self._strike)
        self.struck = self.over = 0.0
        self.failed = ""

    @property
    def begun(self) -> bool:
        """Whether it is under way or over."""
        return self._thread.ident is not None

    def begin(self) -> None:
        """Wait for the moment, in a thread, and strike."""
        self._thread.start()

    def wait(self) -> None:
        """Return when all is as before, as far as it lies with the strike."""
        if self.begun:
            self._thread.join()

    @abstractmethod
    def do(self) -> None:
        """Let it happen."""

    @abstractmethod
    def undo(self) -> None:
        """Let it be over."""

    def _strike(self) -> None:
        time.sleep(self.moment)
        self.struck = time.monotonic()
        try:
            self.do()
            time.sleep(self.away)
            self.undo()
        except (RuntimeError, OSError) as error:
            self.failed = f"{type(error).__name__}: {error}"
        self.over = time.monotonic()


class Fault(Strike):
    """A party of a life that is killed, or cut off, at a moment that a seed decides.

    `links`: through which all parties call servers. `spans`: seconds from the first word of a
    client to its end in each phase, undisturbed.
    """

    def __init__(
        self, town: Consortium, links: Links, seed: int, spans: dict[Phase, float]
    ) -> None:
        super().__init__()
        draw = random.Random(seed)
        self.phase: Phase = draw.choice(("upload", *(2 * PHASES[1:])))
        client = town.analysts[0] if self.phase == "queries" else OWNER
        self.victim = draw.choice((*SERVERS, client))
        self.what = draw.choice(("kill", "kill", "kill", *CUTS))
        # One link of it, or all of them.
        others = [name for name in SERVERS if name != self.victim]
        self.other = draw.choice((None, *others)) if self.what != "kill" else None
        self.moment = draw.random() * spans[self.phase]
        self.away = draw.uniform(0.1, 3.0 if self.what == "kill" else 1.5 * town.timeouts.step)
        is_server = self.victim in SERVERS
        if self.phase == "training" and is_server and not draw.randrange(_FOR_GOOD):
            self.away = town.timeouts.rejoin + _LATE
        self._town, self._links = town, links
        self._process: Popen[str] | None = None

    def __str__(self) -> str:
        link = f"link to {self.other}: " if self.other else "links: " if self.what != "kill" else ""
        place = f"{self.moment:.2f} s into {self.phase}, for {self.away:.1f} s"
        return f"{self.victim}, {link}{self.what} {place}"

    @property
    def role(self) -> str:
        """Of the victim."""
        if self.victim in SERVERS:
            return "server"
        return "owner" if self.victim == OWNER else "analyst"

    def begin_in(self, phase: Phase, process: Popen[str]) -> None:
        """Strike in this phase, if it is the one; `process` is the client of the phase."""
        if phase == self.phase and not self.begun:
            self._process = process
            self.begin()

    def do(self) -> None:
        """Kill the victim, or cut its links."""
        if self.what != "kill":
            self._links.cut(self.victim, self.what, self.other)  # type: ignore[arg-type]
        elif self.role == "server":
            self._town.kill(self.victim)
        else:
            assert self._process is not None
            self._process.kill()

    def undo(self) -> None:
        """Mend its links, or start it again; people start clients themselves."""
        if self.what != "kill":
            self._links.mend(self.victim, self.other)
        elif self.role == "server":
            self._town.start(self.victim)


class CaseFault(Strike):
    """A party of a case that is killed, frozen or cut off, or a run that is stopped and resumed.

    A seed decides on all of it; `span`: seconds of an undisturbed act.
    """

    def __init__(self, case: Case, act: str, seed: int, span: float) -> None:
        super().__init__()
        draw = random.Random(seed)
        town = case.town
        self.victim = draw.choice(sorted(town.processes))
        self.what = draw.choice(("kill", "kill", "freeze", *CUTS, *case.orders))
        # Of two who take no calls neither calls the other.
        called = {name for name, config in town.parties.items() if config.me.takes_calls}
        linked = sorted(set(town.processes) if self.victim in called else called)
        others = [None, *(name for name in linked if name != self.victim)]
        self.other = draw.choice(others) if self.what in CUTS else None
        self.moment = draw.random() * span
        self.away = draw.uniform(0.1, 4.0)
        self._case, self._act = case, act
        self._frozen: list[int] = []

    def __str__(self) -> str:
        link = f", its link to {self.other}" if self.other else ""
        return f"{self.what} {self.victim}{link} after {self.moment:.2f} s, for {self.away:.1f} s"

    def do(self) -> None:
        """Let it happen."""
        town, process = self._case.town, self._case.town.processes[self.victim]
        if self.what == "kill":
            town.away.add(self.victim)
            process.send_signal(signal.SIGKILL)
        elif self.what == "freeze":
            self._frozen = [process.pid, *offspring(process.pid)]
            self._signal(signal.SIGSTOP)
        elif self.what in CUTS:
            assert town.links is not None
            town.links.cut(self.victim, self.what, self.other)  # type: ignore[arg-type]
        else:
            self._case.order(self._act, self.what)

    def undo(self) -> None:
        """Let it be over."""
        town = self._case.town
        if self.what == "kill":
            town.away.discard(self.victim)
        elif self.what == "freeze":
            self._signal(signal.SIGCONT)
        elif self.what in CUTS:
            assert town.links is not None
            town.links.mend(self.victim, self.other)
        else:
            self._case.order(self._act, "resume")

    def _signal(self, number: int) -> None:
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
