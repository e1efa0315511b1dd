"""A consortium of real daemons on loopback: chaos, load and a wide-area network.

``python -m bench consortium`` runs all three parts in full, about half an hour.
``python -m bench.consortium chaos|load|wan [--quick]`` runs one of them; see its ``--help``.

Chaos: 30 runs, 20 of them without noise, in each of which a server, an owner or an analyst gets
SIGKILL or has its links cut, at a random moment of upload, training or queries; to do one of them
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
