"""Plans as the paper has them: ten trees on disjoint rows, half of epsilon for the splits."""

from typing import Any

from hedgerow.protocols.median.options import MedianOptions
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.tables import Domain


def median_plan(
    domain: Domain,
    *,
    epsilon: float | None,
    n_trees: int = 10,
    depth: int | str = "auto",
    candidates: int | str = "auto",
    capacity: int | None = None,
    **options: Any,
) -> MedianPlan:
    """Plan a forest; without an epsilon, one without noise."""
    given = {
        "n_estimators": n_trees,
        "max_depth": depth,
        "max_features": candidates,
        "split_share": 0.5,
        "partition": True,
    } | options
    if epsilon is None:
        return MedianOptions(**given).plan(domain, capacity)
    return MedianOptions.from_parameters(given | {"epsilon": epsilon}).plan(domain, capacity)
