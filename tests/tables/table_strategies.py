"""Hypothesis strategies for domains and for tables that fit them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from hedgerow.tables import Attribute, Domain, Encoded, Target

relaxed = settings(deadline=None)
"""No time limit: the first example may compile a kernel, and machines are shared."""

names = st.text(min_size=1, max_size=6)
numbers = st.floats(-1e6, 1e6, allow_nan=False, width=64)
bounds = st.tuples(numbers, numbers).map(sorted).filter(lambda b: b[1] - b[0] > 1e-3).map(tuple)


def categories(max_size: int = 6) -> st.SearchStrategy[tuple]:
    """Distinct values of one type."""
    return st.one_of(
        st.lists(st.text(max_size=5), min_size=1, max_size=max_size, unique=True),
        st.lists(st.integers(-9, 9), min_size=1, max_size=max_size, unique=True),
        st.lists(numbers, min_size=1, max_size=max_size, unique=True),
        st.permutations([False, True]),
    ).map(tuple)


@st.composite
def attributes(draw: st.DrawFn, name: st.SearchStrategy[str] = names) -> Attribute:
    common = {
        "name": draw(name),
        "missing": draw(st.sampled_from(["error", "own bin"])),
        "outside": draw(st.sampled_from(["clip", "error", None])),
    }
    if draw(st.booleans()):
        return Attribute(kind="categorical", categories=draw(categories()), **common)
    lo, hi = draw(bounds)
    if draw(st.booleans()):
        return Attribute(kind="numeric", bounds=(lo, hi), bins=draw(st.integers(2, 40)), **common)
    inner = st.floats(lo, math.nextafter(hi, lo))
    edges = sorted(draw(st.sets(inner, max_size=12)))
    return Attribute(kind="numeric", bounds=(lo, hi), edges=tuple(edges), **common)


@st.composite
def domains(draw: st.DrawFn, max_attributes: int = 4) -> Domain:
    found = draw(st.lists(names, min_size=2, max_size=max_attributes + 1, unique=True))
    target = draw(
        st.one_of(
            st.none(),
            categories().map(lambda classes: Target(name=found[0], classes=classes)),
            bounds.map(lambda b: Target(name=found[0], bounds=b)),
        )
    )
    return Domain(
        attributes=tuple(draw(attributes(st.just(name))) for name in found[1:]),
        target=target,
        capacity=draw(st.none() | st.integers(1, 10**9)),
        provenance=draw(st.sampled_from(["declared", "read from data", "confirmed public"])),
    )


@st.composite
def encodeds(draw: st.DrawFn, max_rows: int = 12, all_present: bool = False) -> Encoded:
    """Encoded tables with ids and, sometimes, absent slots; they may have no rows at all."""
    domain = draw(domains())
    n = draw(st.integers(0, max_rows))
    columns = [
        draw(st.lists(st.integers(0, int(k) - 1), min_size=n, max_size=n)) for k in domain.n_bins
    ]
    target = None
    if domain.target is not None and domain.target.n_classes is not None:
        top = domain.target.n_classes - 1
        drawn = draw(st.lists(st.integers(0, top), min_size=n, max_size=n))
        target = np.array(drawn, dtype=np.uint8)
    elif domain.target is not None:
        drawn = draw(st.lists(st.floats(*domain.target.bounds), min_size=n, max_size=n))
        target = np.array(drawn, dtype=np.float64)
    kinds = st.integers(-(2**62), 2**62) if draw(st.booleans()) else st.text("abc01", min_size=1)
    ids = draw(st.lists(kinds, min_size=n, max_size=n, unique=True))
    is_text = bool(ids) and isinstance(ids[0], str)
    present = [True] * n if all_present else draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return Encoded(
        domain=domain,
        bins=np.asfortranarray(np.array(columns, dtype=domain.dtype).reshape(len(columns), n).T),
        target=target,
        present=np.array(present, dtype=np.bool_),
        ids=np.array(ids, dtype=np.str_ if is_text else np.int64),
    )


def records(encoded: Encoded) -> list[tuple]:
    """The present records as comparable rows, sorted by id."""
    found = [
        (
            encoded.ids[i].item(),
            tuple(encoded.bins[i].tolist()),
            None if encoded.target is None else encoded.target[i].item(),
        )
        for i in np.flatnonzero(encoded.present)
    ]
    return sorted(found, key=lambda record: record[0])
