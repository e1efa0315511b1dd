"""Small runs of vertical ID3 on secret counts."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from hedgerow.privacy import NoiseSource
from hedgerow.protocols import run as protocols_run
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.run import VerticalRun, joined_tree, run_vertical
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from reproduce.paper_002.data import tables_of
from tests.protocols.vertical_id3.ppid3_runs import TappedMesh, Wire


def secret(
    table: Encoded,
    groups: Sequence[Sequence[int]],
    class_at: int | None = 0,
    *,
    engine: str = "simulate",
    tap: Wire | None = None,
    seed: int | None = None,
    sources: Sequence[NoiseSource] | None = None,
    **job: Any,
) -> VerticalRun:
    """Grow a tree on secret counts."""
    assert table.domain.target is not None
    public = SiteJob(len(groups), class_at, table.domain.target.n_classes, **job)
    tables = tables_of(table, groups, class_at)
    return run_secret(public, tables, engine, seed=seed, sources=sources, tap=tap)


def run_secret(
    job: SiteJob,
    tables: Sequence[SiteTable],
    engine: str = "simulate",
    *,
    seed: int | None = None,
    sources: Sequence[NoiseSource] | None = None,
    tap: Wire | None = None,
) -> VerticalRun:
    """Grow a tree on secret counts."""
    plan = Session(job, {}, secret=True)
    if tap is None:
        return run_vertical(plan, tables, engine, seed=seed, sources=sources)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols_run, "Mesh", partial(TappedMesh, tap=tap, servers=SERVERS))
        return run_vertical(plan, tables, engine, seed=seed, sources=sources)


def tree_of(run: VerticalRun, table: Encoded, groups: Sequence[Sequence[int]]) -> Tree:
    """Put the tree together."""
    return joined_tree(run.sites, run.root, table.domain, groups)
