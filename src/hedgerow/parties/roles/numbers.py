"""Public numbers of a party for ``/metrics``: how runs get on, what is left of budgets and keys.

Reveals: to members, or to everybody where the policy says so, what servers tell of runs anyway:
states, steps, rounds, bytes and names of parties, of sites and peers states and names alone; and
the totals of accounts. Nothing of a row.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.store import ENDED, OPEN
from hedgerow.parties.wire.metrics import Metric, Sample
from hedgerow.parties.wire.requests import Fields

RUNS = Metric("hedgerow_runs", "Runs by state.", ("state",))
RUN_ATTEMPT = Metric("hedgerow_run_attempt", "Attempts at a run.", ("run",))
RUN_WAITING_FOR = Metric("hedgerow_run_waiting_for", "Who is waited for.", ("run", "party"))
RUN_LEVEL = Metric("hedgerow_run_level", "Level of the trees under way.", ("run",))
RUN_STAGE = Metric("hedgerow_run_stage", "Last stage that all servers have.", ("run",))
RUN_ROUNDS = Metric("hedgerow_run_rounds", "Rounds of this attempt so far.", ("run",))
RUN_BYTES = Metric(
    "hedgerow_run_bytes", "Bytes that this server has sent in this attempt.", ("run",)
)
EPSILON_LEFT = Metric("hedgerow_epsilon_left", "Epsilon that jobs may still cost.", ("population",))
DELTA_LEFT = Metric("hedgerow_delta_left", "Delta that jobs may still cost.", ("population",))
CERTIFICATE_DAYS = Metric(
    "hedgerow_certificate_days", "Days for which a certificate is valid.", ("party",)
)
_PROGRESS = {"level": RUN_LEVEL, "number": RUN_STAGE, "rounds": RUN_ROUNDS, "bytes": RUN_BYTES}


def party_numbers(config: PartyConfig, runs: RunManager) -> Iterator[Sample]:
    """Return the numbers of a party."""
    states = Counter(str(run.state) for run in runs.store.all())
    for state in (*OPEN, *ENDED, "done"):
        yield RUNS.of(states[state], state)
    for run in runs.store.all():
        if run.is_open:
            yield from _run_numbers(runs.shown_to(None, runs.show(run.id)))
    for population, lifetime in sorted(runs.policy.populations.items()):
        spent = runs.accounts.spent(population)
        left = max(0.0, lifetime.epsilon - spent.epsilon)
        yield EPSILON_LEFT.of(left, population)
        if not math.isinf(lifetime.epsilon):
            left = max(0.0, lifetime.delta - spent.delta)
            yield DELTA_LEFT.of(left, population)
    yield from certificate_numbers(config)


def certificate_numbers(config: PartyConfig) -> Iterator[Sample]:
    """Return for how many days the certificates are valid: this party's, and of others."""
    now = datetime.datetime.now(datetime.UTC)
    for member in config.members:
        if config.certificate_file(member.name).exists():
            days = (Certificate.of(config, member.name).ends - now) / datetime.timedelta(days=1)
            yield CERTIFICATE_DAYS.of(days, member.name)


def _run_numbers(told: Fields) -> Iterator[Sample]:
    run = str(told["run"])
    yield RUN_ATTEMPT.of(told["attempt"], run)
    for party in told["waiting_for"]:
        yield RUN_WAITING_FOR.of(1, run, str(party))
    for key, metric in _PROGRESS.items():
        value = told["progress"].get(key)
        if isinstance(value, int | float):
            yield metric.of(value, run)
