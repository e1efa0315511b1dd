"""Growing a tree at the sites of one process: the job, the ledger and the run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Self

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import warn_caller
from hedgerow.estimators.vertical_answers import SitesClassifier
from hedgerow.estimators.vertical_sites import empty_site
from hedgerow.net.meter import Reading
from hedgerow.privacy import Ledger
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import CountNoise, parties_of, summary_releases
from hedgerow.protocols.vertical_id3.programs import LocalSites
from hedgerow.protocols.vertical_id3.secret.run import run_secret, sites_of
from hedgerow.protocols.vertical_id3.secret.session import (
    mark_secret,
    session_of_tables,
    summary_of_secret,
)
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.secure.replicated.core import SERVERS


class GrownAtSites(SitesClassifier):
    """A tree that is grown at several sites, by set intersections or on secret counts."""

    max_depth: int | None
    epsilon: float | None  # type: ignore[assignment]
    insecure_domain_from_data = False
    cardinality: str
    engine: str
    ring: str

    n_records_: int
    server_traffic_: Reading | None

    def _grow(self, job: SiteJob, tables: Sequence[SiteTable], ledger: Ledger) -> Self:
        for i, table in enumerate(tables):
            if not table.bins.shape[1] and table.labels is None:
                raise empty_site(i)
        self._charge_growth(job, tables, ledger)
        seeds = None if self.random_state is None else [self._seeds(i) for i in range(job.n_sites)]
        self.server_traffic_, self._server_learned = None, None
        if self.cardinality == "secret":
            run = run_secret(job, tables, self.engine, seed=self.random_state, seeds=seeds)  # type: ignore[arg-type]
            self.server_traffic_, self._server_learned = run.meter, run.learned
            self.root_, self.sites_ = run.root, run.sites
        else:
            self.sites_ = sites_of(job, tables, seeds)
            self.root_ = LocalSites(self.sites_).grow()
        self.n_records_ = self.sites_[0].table.n_records
        return self

    def _charge_growth(self, job: SiteJob, tables: Sequence[SiteTable], ledger: Ledger) -> None:
        """Charge all of a run, as one call."""
        secret = self.cardinality == "secret"
        ledger.parties = tuple(parties_of(job, servers=SERVERS if secret else 0))
        if self.random_state is not None:
            warn_caller(
                "random_state makes keys and noise repeatable: the ledger records this model as "
                "not private",
            )
            ledger.mark_not_private("keys and noise were seeded")
        due = summary_of_secret(session_of_tables(job, tables)) if secret else summary_releases(job)
        if not secret and job.epsilon is not None and job.max_depth is not None:
            widths = self.domain_.n_bins
            due += CountNoise(
                job.epsilon, job.max_depth, len(widths), job.n_classes, int(widths.max())
            ).releases()
        ledger.charge(*due)
        if secret:
            mark_secret(ledger, job)

    def _promises(self) -> bool:
        return super()._promises() and self.epsilon is not None

    def _job(self, n_sites: int, class_at: int | None, *, align: bool) -> SiteJob:
        return SiteJob(
            n_sites=n_sites,
            class_at=class_at,
            n_classes=len(self.classes_),
            max_depth=None if self.max_depth is None else int(self.max_depth),
            ring=self.ring,  # type: ignore[arg-type]
            align=align,
            answers_to=self.answers_to,  # type: ignore[arg-type]
            epsilon=None if self.epsilon is None else float(self.epsilon),
        )

    def _seeds(self, site: int) -> tuple[bytes, int]:
        return self._key(site, KEY_BYTES), int.from_bytes(self._key(site, 8), "little")

    def _key(self, site: int, size: int) -> bytes:
        text = f"hedgerow site {site} seed {self.random_state}".encode()
        return hashlib.blake2b(text, digest_size=size).digest()
