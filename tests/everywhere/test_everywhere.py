"""A protocol is one program: in an estimator, in processes over TLS, in daemons, in the Flower app.

What is compared with the simulator: every message between any two parties by its step and length,
what each party opens (name, audience, shape, times), the values where there is no noise in them,
every entry of every ledger, rounds and bytes on the meter. Where a runtime legitimately does more
or less, `without_agreement`, `unsent_in_flower` and `told_apart` say what, exactly.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.rehearsing import rehearse_job
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.part import OTHERS
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.protocols.registry import (
    PEER_PROTOCOLS,
    SERVER_PROTOCOLS,
    TOPDOWN,
    VERTICAL,
    is_published,
)
from hedgerow.protocols.sharing.join import OUT_OF_ORDER
from hedgerow.protocols.topdown import programs as topdown
from hedgerow.protocols.topdown.programs import ASK, TREE
from hedgerow.protocols.vertical_id3 import programs as vertical
from hedgerow.secure.sort import SHUFFLED
from tests.everywhere.runtimes import (
    CASES,
    Case,
    Charges,
    Everybody,
    Figures,
    Outcome,
    Tables,
    everybody,
    figures,
    in_estimator,
    in_flower,
)
from tests.reports.pages import check_pages

Sent = dict[tuple[int, int], list[tuple[str, int]]]
MAIL = {*topdown.MAIL, *vertical.MAIL}
BY_DEFAULT = {
    "processes": {
        "open-tree, exact",
        "hidden-regression",
        "topdown, secure-counts",
        "vertical-id3, secret counts",
        "pivot-tree, enhanced",
    },
    "daemons": {
        "hidden-tree, noisy",
        "open-tree, exact",
        "topdown, noisy-counts",
        "topdown, secure-counts",
        "vertical-id3, ring",
        "pivot-tree, basic",
        "pivot-logistic, basic",
    },
    "flower": {"topdown, noisy-counts", "topdown, local-rnm"},
}
"""One of every kind; the others are slow, because every one of them starts so many processes."""
TOLERANCE = {"hidden-regression": 100 * 2.0**-24}
"""Means are rounded at random, by one unit in the last place: 2^-25 of the width of the bounds."""


def test_every_protocol_is_in_the_matrix() -> None:
    everywhere = {case.job.protocol for case in CASES.values()}
    assert everywhere == {*SERVER_PROTOCOLS, TOPDOWN, VERTICAL, *PEER_PROTOCOLS}
    assert BY_DEFAULT["flower"] == {n for n, c in CASES.items() if runs_in_flower(c)}


def runs_in_flower(case: Case) -> bool:
    return isinstance(case.job, TopDownJob) and case.job.plan.method != "secure-counts"


def matrix() -> Iterator[Any]:
    for runtime, usual in BY_DEFAULT.items():
        for name, case in CASES.items():
            if runtime != "flower" or runs_in_flower(case):
                marks = [] if name in usual else [pytest.mark.slow]
                yield pytest.param(runtime, name, id=f"{runtime}, {name}", marks=marks)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def simulated(tables: Tables) -> Any:
    """Run a case in the simulator, once."""
    return cache(lambda name: in_estimator(CASES[name], tables, "simulate"))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everybody]:
    with everybody(tmp_path_factory.mktemp("town")) as made:
        yield made


@pytest.mark.parametrize(("runtime", "name"), list(matrix()))
def test_the_same_everywhere(
    runtime: str,
    name: str,
    request: pytest.FixtureRequest,
    tables: Tables,
    simulated: Any,
) -> None:
    case, here = CASES[name], simulated(name)
    if runtime == "flower":
        there = in_flower(case, tables)
        check_sent(case, there.transcript.sent, unsent_in_flower(here.transcript.sent))
    else:
        daemons = runtime == "daemons"
        there = (
            request.getfixturevalue("town").run(case)
            if daemons
            else in_estimator(case, tables, "processes")
        )
        sent, added = there.transcript.sent, Counter[tuple[str, int]]()
        if daemons and isinstance(case.job, ServerJob | PivotJob):
            sent, added = without_agreement(case.job, sent, here)
            check_foreseen(case.job, there, {step for step, _ in added})
        check_sent(case, sent, here.transcript.sent)
        check_opened(case, there, here)
        check_meter(there, here, added)
    check_charges(there, expected_charges(runtime, case, here))
    if case.exact and name in TOLERANCE:
        assert there.result == pytest.approx(here.result, abs=TOLERANCE[name])
    elif case.exact:
        assert there.result == here.result
    print(f"\n{name} | {runtime} | {figures_of(there)}")
    if there.pages:
        # Those who see most of it, and least.
        check_pages([there.pages[0], there.pages[-1]])


def in_order(case: Case, found: list[Any]) -> list[Any]:
    """Return what has one order; sites do what they do in the order in which messages come."""
    return sorted(found, key=repr) if isinstance(case.job, VerticalJob) else found


def check_sent(case: Case, there: Sent, here: Sent) -> None:
    """The same lengths, in the same order, between any two."""
    assert there.keys() == here.keys()
    for pair in here:
        assert in_order(case, there[pair]) == in_order(case, here[pair]), pair


def unsent_in_flower(sent: Sent) -> Sent:
    """An owner is there for one message at a time: it is told neither the end nor the tree."""
    found = {}
    for pair, messages in sent.items():
        *before, last, tree = messages
        if pair[0] == 0:
            assert last == (ASK, 0)
            assert tree[0] == TREE
        found[pair] = before if pair[0] == 0 else messages
    return found


def without_agreement(
    job: ServerJob | PivotJob, sent: Sent, here: Outcome
) -> tuple[Sent, Counter[tuple[str, int]]]:
    """Servers that may fall over agree, stage by stage; return the rest, and what that is for one.

    They tell each other how many stages they have, and the digest of each upload; that a stage is
    kept, of which there is one for a level, one for what is published last, and the model; the
    digest of the ledger; and take leave once more, when they have the model. Peers compare
    versions and what they have prepared in place of uploads, and keep rows, all that they open, and
    rounds of boosting.
    """
    kept = ("kept", 32)
    if isinstance(job, PivotJob):
        rounds = getattr(job.plan, "n_estimators", 0) if job.protocol == "pivot-boosting" else 0
        stages = 1 + rounds + len(of_rows(here).get(0, ()))
        if job.protocol == "pivot-logistic":
            # Weights and velocity, at the end of each epoch.
            stages += job.levels
        begin = [("stages", 8), ("version of Pivot", 8), ("prepared", 16)]
    else:
        stages = job.levels + is_published(job.protocol)
        begin = [("stages", 8), ("compare uploads", 32 * len(job.uploads))]
    end = [("compare", 32), kept, ("farewell", 0), ("farewell", 0)]
    found = {}
    for pair, messages in sent.items():
        assert messages[: len(begin)] == begin
        assert messages[-4:] == end
        rest = messages[len(begin) : -4]
        assert rest.count(kept) == stages
        found[pair] = [one for one in rest if one != kept]
    return found, Counter([*begin, *[kept] * stages, *end])


def check_foreseen(job: ServerJob | PivotJob, there: Outcome, agreement: set[str]) -> None:
    """What `hedgerow estimate` says; of peers in agreement alone: fewer rows are common."""
    foreseen = figures(rehearse_job(job).reading)
    if isinstance(job, ServerJob):
        assert foreseen == there.meter
    for step in agreement:
        found = [
            {at: one for at, one in f.items() if at[0] == step} for f in (foreseen, there.meter)
        ]
        assert found[0] == found[1], step


def check_opened(case: Case, there: Outcome, here: Outcome) -> None:
    """Names, audiences, shapes and times at each party, in order; and values without noise."""
    opened = there.transcript.opened
    assert opened.keys() == here.transcript.opened.keys()
    for party, found in here.transcript.opened.items():
        assert in_order(case, opened[party]) == in_order(case, found), party
    assert there.transcript.values.keys() == here.transcript.values.keys()
    if case.exact:
        assert of_rows(there) == of_rows(here)


def of_rows(found: Outcome) -> dict[int, list[tuple[str, Any]]]:
    """Return the values that were opened and say something about rows: no coins, no checks."""
    coins = (SHUFFLED, OUT_OF_ORDER)
    values = found.transcript.values
    return {
        at: [one for one in those if not one[0].startswith(coins)] for at, those in values.items()
    }


def check_meter(there: Outcome, here: Outcome, added: Counter[tuple[str, int]]) -> None:
    """Rounds and payload of each step at each server; the meter has all that was seen to leave."""
    expected = dict(here.meter)
    for (step, size), rounds in added.items():
        for server in range(3):
            before = expected.get((step, server), (0, 0))
            expected[step, server] = before[0] + rounds, before[1] + 2 * rounds * size
    assert without_mail(there.meter) == without_mail(expected)
    payload = {at: (0, size) for at, size in there.transcript.payload.items() if size}
    counted = {at: (0, size) for at, (_, size) in there.meter.items() if size}
    # Runs on this machine tell what servers send each other, and daemons everything.
    whole = without_mail(payload) == payload or counted.keys() != without_mail(counted).keys()
    assert counted == (payload if whole else without_mail(payload))


def without_mail(meter: Figures) -> Figures:
    return {at: one for at, one in meter.items() if at[0] not in MAIL}


def expected_charges(runtime: str, case: Case, here: Outcome) -> dict[str, Charges]:
    """Return whose charges a runtime keeps, and what they are."""
    if runtime == "processes" and isinstance(case.job, TopDownJob):
        # Ledgers of owners are those of who starts the processes.
        return {whose: one for whose, one in here.charges.items() if whose == "servers"}
    if runtime == "daemons" and isinstance(case.job, VerticalJob):
        return {whose: told_apart(case.job, whose, one) for whose, one in here.charges.items()}
    return here.charges


def check_charges(there: Outcome, expected: dict[str, Charges]) -> None:
    assert there.charges.keys() == expected.keys()
    for whose, found in there.charges.items():
        assert found == expected[whose], whose


def told_apart(job: VerticalJob, whose: str, charges: Charges) -> Charges:
    """The ledger of a site in a daemon says beforehand that others have ledgers of their own."""
    if whose == "servers":
        return charges
    others = [f"site {i}" for i in range(len(job.sites)) if f"site {i}" != whose]
    others += ["server"] if job.secret else []
    entries, marks = charges
    return entries, [*({"reason": OTHERS, "audiences": [one]} for one in others), *marks]


def figures_of(found: Outcome) -> str:
    """Return how much there was to compare, for who looks (``-s``)."""
    sent, meter = found.transcript.sent, found.meter
    rounds = [sum(r for (_, at), (r, _) in meter.items() if at == party) for party in range(3)]
    return " | ".join(
        [
            f"{sum(map(len, sent.values())):,} messages between {len(sent)} pairs",
            f"{sum(size for messages in sent.values() for _, size in messages):,} bytes",
            f"{max(rounds):,} rounds",
            f"{sum(map(len, found.transcript.opened.values()))} openings",
            f"{sum(len(entries) for entries, _ in found.charges.values())} charges",
            f"{found.seconds:.1f} s",
        ]
    )
