"""Gains keep their order as numbers; parts are bound to everything about their question."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced
from hedgerow.protocols.vertical_id3.messages import BEST, SIZES
from hedgerow.protocols.vertical_id3.node import information_gain
from hedgerow.protocols.vertical_id3.secret.session import Session, ordered, session_of_tables
from hedgerow.secure.ring import Z16, Z32, Z64
from tests.protocols.vertical_id3.ppid3_runs import PAPER, weather
from tests.protocols.vertical_id3.secret.secret_runs import tables_of


def test_gains_that_differ_at_all_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    gains = np.concatenate([[0.0, 5e-324, 1.0, 16.0], rng.random(500), rng.random(200) * 1e-17])
    gains = np.unique(np.concatenate([gains, np.nextafter(gains, 20)]))
    numbers = [ordered(float(gain)) for gain in gains]
    assert all(a < b for a, b in pairwise(numbers))
    assert ordered(-1.0) == 0 < ordered(0.0) == ordered(-0.0) == 1
    # The difference of any two has a sign in 64 bits.
    assert numbers[-1] < 2**63


def test_gains_of_real_tables_are_in_range() -> None:
    rng = np.random.default_rng(1)
    tables = rng.integers(0, 30, (200, 4, 3))
    gains = [information_gain(table) for table in tables]
    assert np.argsort(gains).tolist() == np.argsort([ordered(gain) for gain in gains]).tolist()


def session(records: int = 14, **job: object) -> Session:
    public = SiteJob(2, 0, 2, **job)
    return Session(public, {0: Announced((3, 3), 2, records), 1: Announced((2, 2), 0, records)})


def test_the_smallest_ring_that_holds_the_counts() -> None:
    assert [session(n).ring for n in (14, 65_535, 65_536)] == [Z16, Z16, Z32]
    # Noise of scale 10 stays below 2^10 or so; of scale 10^6 it does not.
    loud = session(14, epsilon=1.0, max_depth=2)
    assert loud.noise is not None
    assert loud.noise.tables == 10
    assert loud.ring == Z16
    assert session(14, epsilon=1e-5, max_depth=2).ring == Z32
    assert session(14, epsilon=1e-9, max_depth=2).ring == Z64


def test_what_a_site_shares() -> None:
    # Bits of 0 to 3, and of 0 to 4; one number.
    assert session(5).shared(SIZES, 1) == ((1, 5), None)
    assert session(5).shared(SIZES, 3) == ((2, 5), None)
    assert session(5).shared(SIZES, 4) == ((3, 5), None)
    assert session(5).shared(BEST, 1) == ((1,), Z64)


def test_a_context_holds_everything() -> None:
    base = session().context(9, SIZES, 0, (0, 1))
    others = [
        replace(base, call=8).of(1, 2, 0),
        replace(base, what=BEST).of(1, 2, 0),
        replace(base, counter=1).of(1, 2, 0),
        replace(base, ring=(0, 1, 2)).of(1, 2, 0),
        session(15).context(9, SIZES, 0, (0, 1)).of(1, 2, 0),
        session(max_depth=3).context(9, SIZES, 0, (0, 1)).of(1, 2, 0),
        base.of(0, 2, 0),
        base.of(1, 3, 0),
        base.of(1, 2, 1),
    ]
    assert len({base.of(1, 2, 0), *others}) == 1 + len(others)


@pytest.mark.parametrize("class_at", [0, None])
def test_the_session_of_tables_is_what_sites_announce(class_at: int | None) -> None:
    job = SiteJob(2, class_at, 2)
    found = session_of_tables(job, tables_of(weather(), PAPER, class_at))
    classes = 2 if class_at is None else 0
    assert found.announced == {0: Announced((3, 3), 2, 14), 1: Announced((2, 2), classes, 14)}
