"""Public numbers of a party for ``/metrics``: how runs get on, what is left of budgets and keys.

Reveals: to members, or to everybody where the policy says so, what servers tell of runs anyway:
states, steps, rounds, bytes and names of parties; and the totals of accounts. Nothing of a row.
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
from hedgerow.parties.wire.metrics import Sample
from hedgerow.parties.wire.requests import Fields

_PROGRESS = {
    "level": ("hedgerow_run_level", "Level of the trees under way."),
    "number": ("hedgerow_run_stage", "Last stage that all servers have."),
    "rounds": ("hedgerow_run_rounds", "Rounds of this attempt so far."),
    "bytes": ("hedgerow_run_bytes", "Bytes that this server has sent in this attempt."),
}


def party_numbers(config: PartyConfig, runs: RunManager) -> Iterator[Sample]:
    """Return the numbers of a party."""
    states = Counter(str(run.state) for run in runs.store.all())
    for state in (*OPEN, *ENDED, "done"):
        yield Sample("hedgerow_runs", "Runs by state.", states[state], {"state": state})
    for run in runs.store.all():
        if run.is_open:
            yield from _run_numbers(runs.show(run.id))
    for population, lifetime in sorted(runs.policy.populations.items()):
        of = {"population": population}
        spent = runs.accounts.spent(population)
        left = max(0.0, lifetime.epsilon - spent.epsilon)
        yield Sample("hedgerow_epsilon_left", "Epsilon that jobs may still cost.", left, of)
        if not math.isinf(lifetime.epsilon):
            left = max(0.0, lifetime.delta - spent.delta)
            yield Sample("hedgerow_delta_left", "Delta that jobs may still cost.", left, of)
    yield from certificate_numbers(config)


def certificate_numbers(config: PartyConfig) -> Iterator[Sample]:
    """Return for how many days the certificates are valid: this party's, and of others."""
    now = datetime.datetime.now(datetime.UTC)
    for member in config.members:
        if config.certificate_file(member.name).exists():
            days = (Certificate.of(config, member.name).ends - now) / datetime.timedelta(days=1)
            about = "Days for which a certificate is valid."
            yield Sample("hedgerow_certificate_days", about, days, {"party": member.name})


def _run_numbers(told: Fields) -> Iterator[Sample]:
    of = {"run": str(told["run"])}
    yield Sample("hedgerow_run_attempt", "Attempts at a run.", told["attempt"], of)
    for party in told["waiting_for"]:
        about = "Who is waited for."
        yield Sample("hedgerow_run_waiting_for", about, 1, {**of, "party": str(party)})
    for key, (name, about) in _PROGRESS.items():
        value = told["progress"].get(key)
        if isinstance(value, int | float):
            yield Sample(name, about, value, of)
