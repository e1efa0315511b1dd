"""A consortium of real daemons on loopback: chaos, load and a wide-area network.

``python -m bench consortium`` runs all three parts in full, about an hour.
``python -m bench.consortium chaos|load|wan [--quick]`` runs one of them; see its ``--help``.

Chaos: 100 runs, of all protocols in turn, in each of which a party gets SIGKILL, is frozen or has
its links cut at a random moment, or the run is stopped and resumed; those of the last protocol go
from an upload to answers, every third with noise, and may hit the owner or the analyst. To do one
again: ``--seed N --runs 1``. Load: 50 analysts ask 10,000 rows of a model whose budget is just
that. WAN: adult at depth 3 with 40 ms of delay for a round trip. `wrong` lists whatever should not
have happened; `load` is the machine's load when a part begins.
"""

from __future__ import annotations

from typing import Any


def run() -> list[dict[str, Any]]:
    """Run all parts in full."""
    # Loaded here: a client of a run is a module of this folder, too, and starts many times.
    from bench.consortium.parts import PARTS

    return [each for part in PARTS.values() for each in part()]
