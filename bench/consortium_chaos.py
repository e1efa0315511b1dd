"""Chaos: servers are killed at random moments, and nothing is lost or charged twice.

Every run is a training and some queries, in which one server and its worker get SIGKILL at a moment
drawn from the run's seed, and start again after a while. A run is good if it ends with the answers
of an undisturbed one, or with a numbered error, and if the journals of the three servers then hold
every charge once.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.consortium_parties import SERVERS, Consortium, people
from hedgerow.errors import HedgerowError
from hedgerow.parties.jobs import Job

ROWS, REQUESTS = 100, 10
EXACT: dict[str, Any] = {"noise": "none"}
Say = Callable[[str], None]
NOISY: dict[str, Any] = {"noise": "splits+leaves", "epsilon": 1.0}


def _silent(line: str) -> None:
    """Tell nobody."""


@dataclass
class Outcome:
    """How a run went.

    Attributes
    ----------
    fault : str
        What was done to whom, and when.
    labels : list
        Answers; empty if it has ended with an error.
    error : str
        Number of the error, or nothing.
    attempts : int
    seconds : float
        From the job to the last answer.
    spans : dict of str to float
        Seconds of training and of queries.
    ended : float
        When, on the clock of `time.monotonic`.
    late : bool
        Whether the kill came after the end.
    wrong : list of str
        What should not have happened.
    """

    fault: str = ""
    labels: list[Any] = field(default_factory=list, repr=False)
    error: str = ""
    attempts: int = 0
    seconds: float = 0.0
    spans: dict[str, float] = field(default_factory=dict)
    ended: float = field(default=0.0, repr=False)
    late: bool = False
    wrong: list[str] = field(default_factory=list)


class Fault:
    """A server that is killed after a moment and starts again after another.

    Parameters
    ----------
    town : Consortium
    seed : int
    spans : dict of str to float
        Seconds that each phase takes when it is undisturbed.
    """

    def __init__(self, town: Consortium, seed: int, spans: dict[str, float]) -> None:
        draw = random.Random(seed)
        self.victim = draw.choice(SERVERS)
        self.phase = draw.choice(["training", "training", "queries"])
        self.request = draw.randrange(REQUESTS)
        whole = spans["training"] if self.phase == "training" else spans["queries"] / REQUESTS
        self.moment = draw.uniform(0, whole)
        self.away = draw.uniform(0.1, 2.0)
        self._town, self._failed, self.struck = town, "", 0.0
        self._thread = threading.Thread(target=self._strike)

    def __str__(self) -> str:
        phase = self.phase if self.phase == "training" else f"queries, request {self.request}"
        place = f"{self.moment:.2f} s into {phase}"
        return f"{self.victim} killed {place}, away for {self.away:.1f} s"

    def begin(self, phase: str, request: int = 0) -> None:
        """Strike in this phase, if it is the one."""
        if phase == self.phase and (phase == "training" or request == self.request):
            self._thread.start()

    def end(self) -> str:
        """Wait until the server is back; return what went wrong with that."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._failed

    def _strike(self) -> None:
        time.sleep(self.moment)
        self._town.kill(self.victim)
        self.struck = time.monotonic()
        time.sleep(self.away)
        try:
            self._town.start(self.victim)
        except RuntimeError as error:
            self._failed = str(error)


def undisturbed(town: Consortium, name: str, plan: dict[str, Any]) -> Outcome:
    """Train and ask without a fault; the measure of all others."""
    outcome = _lived(town, town.job(name, **plan), None)
    outcome.wrong += audit(town, town.job(name, **plan), outcome, None)
    if outcome.wrong or outcome.error:
        raise RuntimeError(f"an undisturbed run: {outcome}")
    return outcome


def disturbed(
    town: Consortium, name: str, plan: dict[str, Any], seed: int, model: Outcome, ledger: list[str]
) -> Outcome:
    """Train and ask with a fault, and look at what the servers have kept.

    Parameters
    ----------
    town : Consortium
    name : str
        Of the job and of its model.
    plan : dict
    seed : int
        Of the fault.
    model : Outcome
        An undisturbed run.
    ledger : list of str
        The ledger of that one.
    """
    fault, job = Fault(town, seed, model.spans), town.job(name, **plan)
    outcome = _lived(town, job, fault)
    if failed := fault.end():
        outcome.wrong.append(failed)
        return outcome
    outcome.fault = str(fault)
    outcome.late = fault.struck > outcome.ended
    if plan == EXACT and not outcome.error and outcome.labels != model.labels:
        outcome.wrong.append("other answers than an undisturbed run")
    outcome.wrong += audit(town, job, outcome, ledger)
    return outcome


def _lived(town: Consortium, job: Job, fault: Fault | None) -> Outcome:
    """Train and ask, twice if there is noise; numbered errors are an outcome."""
    outcome, begun = Outcome(), time.monotonic()
    try:
        if fault:
            fault.begin("training")
        for status in town.train(job, patience=90.0):
            outcome.attempts = status.attempt
        outcome.spans["training"] = time.monotonic() - begun
        if status.error is not None:
            raise status.error
        if status.state != "done":
            outcome.wrong.append(f"a run that is {status.state}")
            return outcome
        outcome.labels = _answers(town, job.model, fault)
        outcome.spans["queries"] = time.monotonic() - begun - outcome.spans["training"]
        if job.plan.noise != "none" and _answers(town, job.model) != outcome.labels:
            outcome.wrong.append("other answers to the same rows")
    except HedgerowError as error:
        outcome.error = error.code.number
    except RuntimeError as error:
        outcome.wrong.append(str(error))
    outcome.ended = time.monotonic()
    outcome.seconds = outcome.ended - begun
    return outcome


def _answers(town: Consortium, model: str, fault: Fault | None = None) -> list[Any]:
    analyst, rows = town.analyst(timeout=60.0), people(ROWS).drop_columns(["ill"])
    step, labels = ROWS // REQUESTS, []
    for request in range(REQUESTS):
        if fault:
            fault.begin("queries", request)
        labels += analyst.ask(model, rows.slice(request * step, step)).labels
    return labels


def audit(town: Consortium, job: Job, outcome: Outcome, ledger: list[str] | None) -> list[str]:
    """Compare the journals of the three servers; return what is wrong with them."""
    wrong, finished = [], not outcome.error
    paid = {name: town.charges(name)[f"job:{job.hash}"] for name in SERVERS}
    if set(paid.values()) != {1} and (finished or max(paid.values()) > 1):
        wrong.append(f"charges of the account: {paid}")
    lines = [Counter(town.ledger(name, job.run_id)) for name in SERVERS] if finished else []
    if any(each != lines[0] for each in lines):
        wrong.append("ledgers that differ")
    if ledger is not None and lines and lines[0] != Counter(ledger):
        wrong.append(f"a ledger of {lines[0].total()} lines, not {len(ledger)} as undisturbed")
    charged, answered = zip(*(town.asked(name, job.model) for name in SERVERS), strict=True)
    if any(times > 1 for each in charged for times in each.values()):
        wrong.append("a query that was charged twice")
    if finished:
        requests = REQUESTS * (1 if job.plan.noise == "none" else 2)
        if any(each != charged[0] for each in charged) or len(charged[0]) != requests:
            wrong.append(f"queries charged: {[len(each) for each in charged]}, not {requests}")
        if sum(n for _, _, n in charged[0]) != requests * ROWS // REQUESTS:
            wrong.append("other rows charged than asked")
        if any(len(answered[server]) != requests for server in (0, 1)):
            wrong.append(f"queries answered: {[len(each) for each in answered]}, not {requests}")
    ids = {id for each in answered for id in each}
    mixed = [id for id in ids if len({each[id] for each in answered if id in each}) > 1]
    return wrong + [f"query {id} with halves of two draws" for id in mixed]


def chaos(
    town: Consortium, runs: int, noisy: int, *, limit: float = 3600.0, say: Say = _silent
) -> dict[str, Any]:
    """Do runs without noise, whose answers are compared, and some with noise; return figures.

    Parameters
    ----------
    town : Consortium
    runs, noisy : int
        How many of each kind; their seeds count from 0.
    limit : float
        Seconds after which no further run begins.
    say : callable
        Told how every run went.
    """
    begun, models = time.monotonic(), {}
    for name, plan in (("exact", EXACT), ("noisy", NOISY))[: 1 + bool(noisy)]:
        models[name] = undisturbed(town, name, plan)
    outcomes: dict[str, Outcome] = {}
    # Those with noise are spread over the others.
    kinds = sorted(
        [(k / runs, "exact") for k in range(runs)] + [(k / noisy, "noisy") for k in range(noisy)]
    )
    for seed, (_, kind) in enumerate(kinds):
        if time.monotonic() - begun > limit:
            break
        plan = EXACT if kind == "exact" else NOISY
        ledger = town.ledger(SERVERS[0], town.job(kind, **plan).run_id)
        name = f"{kind}-{seed}"
        outcomes[name] = disturbed(town, name, plan, seed, models[kind], ledger)
        say(f"{name}: {outcomes[name]}")
    wrong = [f"{name} ({o.fault}): {what}" for name, o in outcomes.items() for what in o.wrong]
    wrong += _after_restart(town, [name for name, o in outcomes.items() if not o.error])
    ended = [o.error for o in outcomes.values() if o.error]
    seconds = [o.seconds for o in outcomes.values()]
    return {
        "runs": len(outcomes),
        "asked_for": runs + noisy,
        "without_noise": sum(name.startswith("exact") for name in outcomes),
        "finished": sum(not o.error and not o.wrong for o in outcomes.values()),
        "ended_with_a_number": len(ended),
        "numbers": dict(Counter(ended)),
        "wrong": wrong,
        "kills_in_queries": sum("queries" in o.fault for o in outcomes.values()),
        "kills_after_the_end": sum(o.late for o in outcomes.values()),
        "attempts": dict(sorted(Counter(o.attempts for o in outcomes.values()).items())),
        "undisturbed_s": round(models["exact"].seconds, 2),
        "median_s": round(statistics.median(seconds), 2),
        "longest_s": round(max(seconds), 2),
        "seconds": round(time.monotonic() - begun, 1),
    }


def _after_restart(town: Consortium, models: list[str]) -> list[str]:
    """Restart all servers; what they say is left must be what their journals said before."""
    town.stop()
    town.start()
    wrong = []
    for model in models:
        asked = ROWS * (1 if model.startswith("exact") else 2)
        left = town.analyst().find(model).left
        if left != town.policy.queries_per_model - asked:
            wrong.append(f"{model}: {left} queries left after a restart")
    if any(times > 1 for name in SERVERS for times in town.charges(name).values()):
        wrong.append("a job that was charged twice")
    if len({frozenset(town.charges(name)) for name in SERVERS}) > 1:
        wrong.append("accounts that differ")
    return wrong
