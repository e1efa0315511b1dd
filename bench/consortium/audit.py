"""What the stores of three servers must hold after a run of `bench.consortium.chaos`."""

from __future__ import annotations

from collections import Counter

from bench.consortium.life import REQUESTS, ROWS, Outcome
from bench.consortium.parties import SERVERS, Consortium, people


def audit(town: Consortium, found: Outcome, model: Outcome) -> list[str]:
    """Compare the stores of the servers with each other and with an undisturbed run.

    `model`: undisturbed, of the same kind.
    """
    wrong: list[str] = []
    if found.job is None:
        return wrong
    finished = not found.error and not found.wrong
    paid = {name: town.charges(name)[f"job:{found.job.hash}"] for name in SERVERS}
    if max(paid.values()) > 1 or (finished and set(paid.values()) != {1}):
        wrong.append(f"charges of the account: {paid}")
    if finished:
        wrong += _ledgers(town, found, model) + _answers(found, model)
    return wrong + _queries(town, found, finished=finished)


def _ledgers(town: Consortium, found: Outcome, model: Outcome) -> list[str]:
    assert found.job is not None
    assert model.job is not None
    lines = [Counter(town.ledger(name, found.job.run_id)) for name in SERVERS]
    if any(each != lines[0] for each in lines):
        return ["ledgers that differ"]
    expected = Counter(town.ledger(SERVERS[0], model.job.run_id))
    if lines[0] != expected:
        return [f"a ledger of {lines[0].total()} lines, not {expected.total()} as undisturbed"]
    return []


def _answers(found: Outcome, model: Outcome) -> list[str]:
    wrong, labels = [], found.labels
    if set(labels) != set(range(found.requests)):
        return [f"{len(labels)} requests answered, not {found.requests}"]
    if found.kind == "exact" and labels != model.labels:
        wrong.append("other answers than an undisturbed run")
    if any(labels[k] != labels[k % REQUESTS] for k in labels):
        wrong.append("other answers to the same rows")
    return wrong


def _queries(town: Consortium, found: Outcome, *, finished: bool) -> list[str]:
    """Check that every query was charged once, at all servers, and answered by one draw."""
    assert found.job is not None
    wrong = []
    charged, answered = zip(*(town.asked(name, found.job.model) for name in SERVERS), strict=True)
    if any(times > 1 for each in charged for times in each.values()):
        wrong.append("a query that was charged twice")
    every = [set(each) for each in charged]
    counts = [len(each) for each in every]
    most = found.requests + found.broken
    if max(counts) > most:
        wrong.append(f"queries charged: {counts}, and {found.requests} asked")
    if any(n != ROWS // REQUESTS for each in every for _, _, n in each):
        wrong.append("other rows charged than asked")
    # A query is charged at all servers before it is answered by any; of those that nobody asked
    # again after a failure, only that.
    done = [set(each) for each in answered]
    known = [{id for _, id, _ in each} for each in every]
    if any(not done[a] <= known[b] for a in range(3) for b in range(3)):
        wrong.append("a query that was answered and is not charged everywhere")
    if finished:
        if any(each != every[0] for each in every) and not found.broken:
            wrong.append(f"queries charged at some servers only: {counts}")
        if len(set.intersection(*known)) < found.requests:
            wrong.append(f"queries charged: {counts}, not {found.requests}")
        if any(len(done[server]) < found.requests for server in (0, 1)):
            wrong.append(f"queries answered: {[len(each) for each in done]}")
    ids = set().union(*done)
    mixed = [id for id in ids if len({each[id] for each in answered if id in each}) > 1]
    return wrong + [f"query {id} with halves of two draws" for id in mixed]


def after_restart(town: Consortium, outcomes: list[Outcome]) -> list[str]:
    """Restart all servers; budgets and answers must be what they were before."""
    good = [o for o in outcomes if o.job is not None and not o.error and not o.wrong]
    town.stop()
    town.start()
    wrong, analyst, step = [], town.analyst(), ROWS // REQUESTS
    rows = people(ROWS).drop_columns(["ill"])
    for found in good:
        assert found.job is not None
        name = found.job.model
        asked = max(sum(n for _, _, n in town.asked(server, name)[0]) for server in SERVERS)
        known = analyst.find(name)
        if known.left != town.policy.queries_per_model - asked:
            wrong.append(f"{name}: {known.left} queries left after a restart")
        labels = [one for k in range(REQUESTS) for one in found.labels[k]]
        if analyst.ask(known, rows.slice(0, REQUESTS * step)).labels != labels:
            wrong.append(f"{name}: other answers after a restart")
    jobs = {f"job:{o.job.hash}" for o in good if o.job is not None}
    for name in SERVERS:
        charges = town.charges(name)
        if any(times > 1 for times in charges.values()):
            wrong.append(f"{name}: a job that was charged twice")
        if not jobs <= set(charges):
            wrong.append(f"{name}: a job whose charge was lost")
    return wrong
