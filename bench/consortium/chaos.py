"""Chaos: parties are killed and cut off at random moments, and nothing is lost or charged twice.

A run of the last protocol is a life: an upload, a training on it and some queries to the model,
each by a process of its owner or analyst (`bench.consortium.life`). In every run one party, a
server or the client, gets SIGKILL or has its links cut, at a moment of one of the three that the
run's seed decides, and comes back after a while (`bench.consortium.faults`). A run is good if it
ends with the answers of an undisturbed one, or with a numbered error, and if the stores of the
three servers then hold every charge once (`bench.consortium.audit`).

A run of any other is an act of a case (`tests.parties.cases`), a training or a question: any party
is killed, frozen or cut off, or the run is stopped and resumed, for a few seconds, so that every
run has to end as an undisturbed one does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.consortium.audit import after_restart, audit
from bench.consortium.faults import CaseFault, Fault
from bench.consortium.life import Life, Outcome, undisturbed
from bench.consortium.links import Links
from bench.consortium.parties import Consortium, linked
from hedgerow.errors import HedgerowError
from tests.parties.cases import CASES, Case, town_case

Say = Callable[[str], None]


LIFE = "hidden-tree, from upload to answers"
PROTOCOLS = (*CASES, LIFE)


def protocol_of(seed: int) -> str:
    """Return the protocol of the run of a seed: they take turns."""
    return PROTOCOLS[seed % len(PROTOCOLS)]


def chaos(protocol: str, seeds: Sequence[int], *, limit: float, say: Say = print) -> dict[str, Any]:
    """Do one run of a protocol for every seed; return figures.

    `limit`: seconds after which no further run begins. `say`: told how every run went.
    """
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        if protocol != LIFE:
            return case_chaos(protocol, Path(folder), seeds, limit=limit, say=say)
        with linked(Path(folder), step=8.0, rejoin=20.0, connect=5.0) as (town, links):
            return life_chaos(town, links, seeds, limit=limit, say=say)


def case_chaos(
    name: str, folder: Path, seeds: Sequence[int], *, limit: float, say: Say
) -> dict[str, Any]:
    """Do one act of a case for every seed; return figures."""
    begun, wrong = time.monotonic(), list[str]()
    faults: list[CaseFault] = []
    seconds: list[float] = []
    with town_case(name, folder) as case:
        acts = ["undisturbed-0", "undisturbed-1"]
        for act in acts:
            started = time.monotonic()
            case.act(act)
            span = time.monotonic() - started
        expected = case.result(acts[0])
        for seed in seeds:
            if faults and time.monotonic() - begun > limit:
                break
            acts.append(f"act-{seed}")
            faults.append(CaseFault(case, acts[-1], seed, span))
            started = time.monotonic()
            faults[-1].begin()
            found = _outcome(case, acts, expected, faults[-1])
            seconds.append(time.monotonic() - started)
            wrong += [f"seed {seed} ({faults[-1]}): {what}" for what in found]
            end = f"WRONG: {'; '.join(found)}" if found else "as undisturbed"
            say(f"seed {seed}: {name}; {faults[-1]}; {end} in {seconds[-1]:.1f} s")
        # All of it is on the disk.
        case.town.restart()
        if not wrong:
            wrong += _problems(case, acts, expected)
    return {
        "runs": len(faults),
        "asked_for": len(seeds),
        "finished_as_undisturbed": len(faults) - len({each.split(" (")[0] for each in wrong}),
        "ended_with_a_number": {},
        "wrong": wrong,
        "faults": dict(Counter(fault.what for fault in faults)),
        "undisturbed_s": round(span, 1),
        "median_s": round(statistics.median(seconds), 1),
        "longest_s": round(max(seconds), 1),
    }


def _outcome(case: Case, acts: list[str], expected: Any, fault: CaseFault) -> list[str]:
    wrong = []
    try:
        case.act(acts[-1])
    except (AssertionError, HedgerowError) as error:
        wrong.append(f"{type(error).__name__}: {str(error)[:2000]}")
    fault.wait()
    case.again()
    if fault.failed:
        wrong.append(fault.failed)
    return wrong or _problems(case, acts, expected)


def _problems(case: Case, acts: list[str], expected: Any) -> list[str]:
    """Return what is wrong with the last act, and with what all of them were charged."""
    try:
        case.check(acts)
    except AssertionError as error:
        return [f"charges: {str(error)[:2000]}"]
    return [] if case.result(acts[-1]) == expected else ["another result than undisturbed"]


def kind_of(seed: int) -> str:
    """Return the kind of the run of a seed: every third has noise."""
    return "noisy" if seed % 3 == 2 else "exact"


def life_chaos(
    town: Consortium, links: Links, seeds: Sequence[int], *, limit: float, say: Say
) -> dict[str, Any]:
    """Live one life for every seed; return figures.

    `links`: through which its parties call servers.
    """
    begun = time.monotonic()
    models = {kind: undisturbed(town, kind) for kind in sorted({kind_of(s) for s in seeds})}
    for model in models.values():
        if wrong := audit(town, model, model):
            raise RuntimeError(f"an undisturbed run: {wrong}")
    found: dict[int, Outcome] = {}
    faults: dict[int, Fault] = {}
    for seed in seeds:
        if found and time.monotonic() - begun > limit:
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
        "training_s": round(models[kind_of(seeds[0])].spans["training"], 1),
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
