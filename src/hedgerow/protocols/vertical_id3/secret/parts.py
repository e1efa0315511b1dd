"""What sites of a vertical ID3 share with the servers: in which shapes, and bound to what.

A part is bound to the session (the job and all sizes that the sites announced), the call, the
question, the site that asks, the ring, the site that shares and the server. So a site that asks
cannot use parts for another question than the one for which they were given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced
from hedgerow.protocols.vertical_id3.noise import CountNoise
from hedgerow.protocols.vertical_id3.secret.messages import SIZES
from hedgerow.protocols.vertical_id3.table import SiteTable
from hedgerow.secure.noise.discrete import LARGEST_EPSILON, Precision, precision
from hedgerow.secure.ring import Z16, Z32, Z64, Ring

NUMBERS = Z64
"""Ring of the numbers that sites share: gains, and hashes of ids."""


@dataclass(frozen=True)
class Session:
    """The public facts of a run after the sites have announced their sizes.

    Parameters
    ----------
    job : SiteJob
    announced : mapping of int to Announced
        Of all sites, with the same number of records.
    """

    job: SiteJob
    announced: Mapping[int, Announced]

    @cached_property
    def records(self) -> int:
        """Number of aligned records, that is of slots."""
        return self.announced[0].records

    @cached_property
    def digest(self) -> bytes:
        """What parties that agree on job and sizes have in common."""
        sizes = [[list(said.values), said.classes, said.records] for said in self._said]
        text = json.dumps(sizes, separators=(",", ":"))
        return hashlib.sha256(
            b"hedgerow/ppid3 sizes/v1" + self.job.digest() + text.encode()
        ).digest()

    @cached_property
    def noise(self) -> CountNoise | None:
        """Noise of the counts, where the job has an epsilon."""
        job = self.job
        if job.epsilon is None or job.max_depth is None:
            return None
        widths = [p for said in self._said for p in said.values]
        return CountNoise(
            job.epsilon, job.max_depth, len(widths), job.n_classes, max(widths, default=1)
        )

    @cached_property
    def drawn(self) -> Precision | None:
        """How finely noise is drawn on shares: the same for every table, of the largest size."""
        noise = self.noise
        if noise is None:
            return None
        if noise.mechanism.epsilon > LARGEST_EPSILON:
            raise Code.BAD_EPSILON.error(
                expected=f"at most epsilon {LARGEST_EPSILON * noise.tables:g} on secret counts, "
                f"{LARGEST_EPSILON:g} for each of {noise.tables} tables",
                found=f"epsilon={noise.epsilon:g}",
                fix="choose a smaller epsilon, or train without noise",
            )
        return precision(noise.mechanism, noise.n_classes * noise.widest)

    @cached_property
    def ring(self) -> Ring:
        """In which counts are computed: the smallest ring that holds them, and noise twice."""
        if self.drawn is None:
            return next(ring for ring in (Z16, Z32, Z64) if self.records < 1 << ring.bits)
        most = self.records + (2 << self.drawn.variable.length)
        return next((ring for ring in (Z16, Z32) if most < 1 << (ring.bits - 1)), Z64)

    def shared(self, what: int, groups: int) -> tuple[tuple[int, ...], Ring | None]:
        """Return shape and ring of what a site shares: one number, or bits (None) of a set."""
        if what == SIZES:
            return (set_planes(groups), self.records), None
        return (1,), NUMBERS

    def context(self, call: int, what: int, counter: int, ring: tuple[int, ...]) -> Context:
        """Return what the parts of one question are bound to."""
        return Context(self.digest, call, what, counter, ring)

    @property
    def _said(self) -> list[Announced]:
        return [self.announced[site] for site in range(self.job.n_sites)]


def session_of_tables(job: SiteJob, tables: Sequence[SiteTable]) -> Session:
    """Return the facts of a run as somebody who has all tables knows them beforehand."""
    return Session(
        job,
        {
            i: Announced(
                tuple(sorted(table.n_values.tolist())),
                job.n_classes if job.knows_class(i) else 0,
                table.n_records,
            )
            for i, table in enumerate(tables)
        },
    )


@dataclass(frozen=True)
class Context:
    """One question, as the sites of its ring and the servers see it."""

    session: bytes
    call: int
    what: int
    counter: int
    ring: tuple[int, ...]

    def of(self, owner: int, groups: int, server: int) -> bytes:
        """Return what a site's part for a server is bound to."""
        bound = [
            *("ppid3 part 2", self.session.hex(), self.call, self.what, self.counter),
            *(list(self.ring), owner, groups, server),
        ]
        return json.dumps(bound, separators=(",", ":")).encode()


def set_planes(groups: int) -> int:
    """Return how many bits a site shares of every slot: those of its group, or of 0 for none."""
    return groups.bit_length()


def ordered(gain: float) -> int:
    """Return a gain as a whole number in the same order; 0 for a site without an attribute left.

    Non-negative doubles stand in the order of their 64 bits read as a number (IEEE 754), so no
    grid could be finer: gains that differ at all differ here, and equal ones are equal. The bits of
    any gain below 2^512 are below 2^63 - 2^61, so that differences keep their sign.
    """
    return 0 if gain < 0 else 1 + int(np.float64(gain + 0.0).view(np.int64))
