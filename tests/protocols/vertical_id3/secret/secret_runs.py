"""Small runs of vertical ID3 on secret counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.programs import joined_tree
from hedgerow.protocols.vertical_id3.secret.run import SecretRun, run_secret
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from tests.protocols.vertical_id3.ppid3_runs import Wire

SEEDS = [(bytes([i]) * 16, i) for i in range(5)]


def tables_of(
    table: Encoded, groups: Sequence[Sequence[int]], class_at: int | None
) -> list[SiteTable]:
    """Deal the columns of a table to sites."""
    return [
        SiteTable(
            table.bins[:, list(group)],
            table.domain.n_bins[list(group)].astype(np.int64),
            table.target if class_at in (None, i) else None,
            table.ids,
        )
        for i, group in enumerate(groups)
    ]


def secret(
    table: Encoded,
    groups: Sequence[Sequence[int]],
    class_at: int | None = 0,
    *,
    engine: str = "simulate",
    tap: Wire | None = None,
    seed: int | None = None,
    **job: Any,
) -> SecretRun:
    """Grow a tree on secret counts."""
    assert table.domain.target is not None
    public = SiteJob(len(groups), class_at, table.domain.target.n_classes, **job)
    seeds = None if seed is None else SEEDS[: len(groups)]
    tables = tables_of(table, groups, class_at)
    return run_secret(public, tables, engine, seed=seed, seeds=seeds, tap=tap)


def tree_of(run: SecretRun, table: Encoded, groups: Sequence[Sequence[int]]) -> Tree:
    """Put the tree together."""
    return joined_tree(run.sites, run.root, table.domain, groups)
