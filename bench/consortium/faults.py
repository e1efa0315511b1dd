"""One thing that goes wrong: a party that is killed, or whose links are cut, for a while."""

from __future__ import annotations

import random
import threading
import time
from subprocess import Popen
from typing import Literal

from bench.consortium.links import CUTS, Links
from bench.consortium.parties import OWNER, SERVERS, Consortium

Phase = Literal["upload", "training", "queries"]
PHASES: tuple[Phase, ...] = ("upload", "training", "queries")
_FOR_GOOD = 10
"""One server in so many that fall over in training comes back too late."""
_LATE = 8.0


class Fault:
    """A party that is killed, or cut off, at a moment that a seed decides.

    `links`: through which all parties call servers. `spans`: seconds from the first word of a
    client to its end in each phase, undisturbed.
    """

    def __init__(
        self, town: Consortium, links: Links, seed: int, spans: dict[Phase, float]
    ) -> None:
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
        self._town, self._links, self._client = town, links, client
        self._process: Popen[str] | None = None
        self._thread = threading.Thread(target=self._strike)
        self.struck = self.over = 0.0
        self.failed = ""

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

    @property
    def begun(self) -> bool:
        """Whether it is under way or over."""
        return self._thread.ident is not None

    def begin(self, phase: Phase, process: Popen[str]) -> None:
        """Strike in this phase, if it is the one; `process` is the client of the phase."""
        if phase == self.phase and not self.begun:
            self._process = process
            self._thread.start()

    def wait(self) -> None:
        """Return when all is as before, as far as it lies with the fault."""
        if self.begun:
            self._thread.join()

    def _strike(self) -> None:
        time.sleep(self.moment)
        self.struck = time.monotonic()
        try:
            if self.what != "kill":
                self._links.cut(self.victim, self.what, self.other)  # type: ignore[arg-type]
            elif self.role == "server":
                self._town.kill(self.victim)
            else:
                assert self._process is not None
                self._process.kill()
            time.sleep(self.away)
            if self.what != "kill":
                self._links.mend(self.victim, self.other)
            elif self.role == "server":
                self._town.start(self.victim)
        except (RuntimeError, OSError) as error:
            self.failed = f"{type(error).__name__}: {error}"
        self.over = time.monotonic()
