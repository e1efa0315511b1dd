"""Chaos: parties are killed and cut off at random moments, and nothing is lost or charged twice.

A run is an upload, a training on it and some queries to the model, each by a process of its owner
or analyst (`bench.consortium.life`). In every run one party, a server or the client, gets SIGKILL
or has its links cut, at a moment of one of the three that the run's seed decides, and comes back
after a while (`bench.consortium.faults`). A run is good if it ends with the answers of an
undisturbed one, or with a numbered error, and if the stores of the three servers then hold every
charge once (`bench.consortium.audit`).
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.consortium.audit import after_restart, audit
from bench.consortium.faults import Fault
from bench.consortium.life import Life, Outcome, undisturbed
from bench.consortium.links import Links
from bench.consortium.parties import Consortium

Say = Callable[[str], None]


def kind_of(seed: int) -> str:
    """Return the kind of the run of a seed: every third has noise."""
    return "noisy" if seed % 3 == 2 else "exact"


def chaos(
    town: Consortium, links: Links, seeds: range, *, limit: float = 3600.0, say: Say = print
) -> dict[str, Any]:
    """Do one run for every seed; return figures.

    `links`: through which its parties call servers. `limit`: seconds after which no further run
    begins. `say`: told how every run went.
    """
    begun = time.monotonic()
    models = {kind: undisturbed(town, kind) for kind in sorted({kind_of(s) for s in seeds})}
    for model in models.values():
        if wrong := audit(town, model, model):
            raise RuntimeError(f"an undisturbed run: {wrong}")
    found: dict[int, Outcome] = {}
    faults: dict[int, Fault] = {}
    for seed in seeds:
        if time.monotonic() - begun > limit:
            break
        kind = kind_of(seed)
        faults[seed] = Fault(town, links, seed, models[kind].spans)
        found[seed] = Life(town, f"{kind}-{seed}", kind, faults[seed]).live()
        found[seed].wrong += audit(town, found[seed], models[kind])
        say(f"seed {seed}: {_line(found[seed])}")
    wrong = [f"seed {s} ({o.fault}): {what}" for s, o in found.items() for what in o.wrong]
    wrong += after_restart(town, [*models.values(), *found.values()])
    return {
        "runs": len(found),
        "asked_for": len(seeds),
        "seeds": f"{seeds.start} to {seeds.stop - 1}",
        "without_noise": sum(o.kind == "exact" for o in found.values()),
        "finished_as_undisturbed": sum(not o.error and not o.wrong for o in found.values()),
        "ended_with_a_number": dict(Counter(o.error for o in found.values() if o.error)),
        "wrong": wrong,
        "victims": dict(Counter(f.role for f in faults.values())),
        "faults": dict(Counter(f.what for f in faults.values())),
        "phases": dict(Counter(f.phase for f in faults.values())),
        "after_the_end": sum(o.late for o in found.values()),
        "attempts": dict(sorted(Counter(o.attempts for o in found.values()).items())),
        "told_on_the_way": dict(Counter(number for o in found.values() for number in o.told)),
        "undisturbed_s": {kind: round(o.seconds, 1) for kind, o in models.items()},
        "training_s": round(models[kind_of(seeds.start)].spans["training"], 1),
        "recovery_s": _quantiles([o.recovery for o in found.values() if o.recovery is not None]),
        "median_s": round(statistics.median(o.seconds for o in found.values()), 1),
        "longest_s": round(max(o.seconds for o in found.values()), 1),
        "seconds": round(time.monotonic() - begun, 1),
    }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {
        "median": round(statistics.median(seconds), 1),
        "longest": round(max(seconds), 1),
        "of": len(seconds),
    }


def _line(found: Outcome) -> str:
    end = f"ended with {found.error}" if found.error else "as undisturbed"
    if found.wrong:
        end = f"WRONG: {'; '.join(found.wrong)}"
    told = f", told {', '.join(found.told)}" if found.told else ""
    late = ", after the end" if found.late else ""
    back = "" if found.recovery is None else f", {found.recovery:.1f} s after it"
    return (
        f"{found.kind}; {found.fault}{late}; {end} in {found.seconds:.1f} s{back}, "
        f"attempts {found.attempts}{told}"
    )
