"""What the auditor draws of private trees has the law of what `fit` releases."""

import numpy as np

from hedgerow.audit import families
from hedgerow.audit.catalogue import curated as audit_targets
from hedgerow.privacy import NoiseSource


def test_what_fit_releases_has_the_law_of_what_is_attacked(chi_square_two) -> None:
    # The auditor draws many trees side by side; fit draws one. Both must look the same.
    parameters = {"criterion": "max", "max_depth": 1, "split_share": 0.5}
    _, table, _ = families()[1]
    source = NoiseSource.insecure_seeded(4)
    fitted, drawn = (
        np.column_stack([*levels[0], leaves.reshape(len(leaves), -1)])
        for levels, leaves in (
            audit_targets.FittedViews(parameters).draw(table, 1_500, source),
            audit_targets.DPTreeViews(parameters).draw(table, 15_000, source),
        )
    )
    assert fitted.shape[1] == drawn.shape[1]
    for column in range(drawn.shape[1]):
        low = min(fitted[:, column].min(), drawn[:, column].min())
        size = max(fitted[:, column].max(), drawn[:, column].max()) - low + 1
        counts = [np.bincount(v[:, column] - low, minlength=size) for v in (fitted, drawn)]
        assert size == 1 or chi_square_two(*counts) > 1e-5
