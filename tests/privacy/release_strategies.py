"""Hypothesis strategies and small makers shared by the tests of the ledger's parts."""

import math
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, ROOT, By, Partition, Scope, part, step

NODES = Partition("nodes", By.ATTRIBUTES)
TREES = Partition("trees", By.COIN)
AUDIENCES = ("public", "analyst", "analyst ana", "server 0", "server 1", "owner 2")
FINITE = st.floats(0, 5, allow_subnormal=False)
EPSILONS = st.one_of(FINITE, FINITE, FINITE, st.just(math.inf))
DELTAS = st.sampled_from([0.0, 0.0, 2.0**-60, 1e-9, 0.01])

SEGMENTS = st.one_of(
    st.sampled_from(["a", "b"]).map(step),
    st.tuples(st.sampled_from([NODES, TREES]), st.sampled_from(["x", "y", EACH])).map(
        lambda pair: part(*pair)
    ),
)
SCOPES = st.lists(SEGMENTS, max_size=3).map(Scope)


def release(epsilon: float = 1.0, scope: Scope = ROOT, **changes: object) -> Release:
    base = Release("two-sided geometric", epsilon, 0.0, 1, scope, "public", "counts")
    return replace(base, **changes)


def gaussian(rho: float = 0.1, scope: Scope = ROOT, **changes: object) -> Release:
    base = Release("discrete gaussian", math.inf, 0.0, 1, scope, "public", "sums", rho=rho)
    return replace(base, **changes)


def releases(epsilons: st.SearchStrategy[float] = EPSILONS) -> st.SearchStrategy[Release]:
    return st.builds(
        Release,
        mechanism=st.sampled_from(["two-sided geometric", "noisy max", "exponential mechanism"]),
        epsilon=epsilons,
        delta=DELTAS,
        sensitivity=st.integers(1, 9),
        scope=SCOPES,
        audience=st.sampled_from(AUDIENCES),
        reason=st.sampled_from(["counts", "split", "inf"]),
        claimed=st.one_of(st.none(), EPSILONS),
        times=st.integers(1, 3),
        variables=st.one_of(st.none(), st.integers(1, 100)),
    )


def release_lists(epsilons: st.SearchStrategy[float] = EPSILONS, **sizes: int) -> st.SearchStrategy:
    return st.lists(releases(epsilons), **{"max_size": 6, **sizes})


@dataclass
class Provenance:
    is_public: bool


def ledger_of(events: list[Release], **options: object) -> Ledger:
    ledger = Ledger(**options)  # type: ignore[arg-type]
    for event in events:
        ledger.charge(event)
    return ledger
