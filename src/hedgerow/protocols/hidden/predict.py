"""Answers to secret queries: the tree is walked without anybody seeing the way.

Paper: hiddentrees, algorithm 4 (`Predict`), for a batch of queries and all trees at once.
"""

from __future__ import annotations

import numpy as np

from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.secure.secret import Secret


def predict(model: SecretForest, queries: Secret) -> Secret:
    """Find the leaf value of every query in every tree, (q, trees, v), of one-hot rows (q, B).

    1. The side or value that every node would send every query to: one secret matrix product (steps
       4 and 5 of all calls).
    2. From the leaves up, each node passes on the value of the child that the query takes: one
       round per level (steps 6 to 8).

    Reveals: nothing.
    Cost: `cost` of one product and one multiplication per level; depth + 1 rounds.
    """
    if model.layout.branching == "binary":
        return _binary(model, queries)
    return _wary(model, queries)


def _binary(model: SecretForest, queries: Secret) -> Secret:
    layout, t, q = model.layout, model.n_trees, queries.shape[0]
    columns = (model.splits @ layout.left).reshape(-1, layout.n_columns).transpose()
    left = (queries @ columns).reshape(q, t, -1)
    values = model.values.reshape(1, t, layout.n_nodes(model.depth), -1)
    for level in reversed(range(model.depth)):
        nodes, v = layout.n_nodes(level), values.shape[-1]
        pairs = values.reshape(values.shape[0], t, nodes, 2, v)
        side = left[:, :, model.level(level)].reshape(q, t, nodes, 1)
        values = side * (pairs[..., 0, :] - pairs[..., 1, :]) + pairs[..., 1, :]
    return values[:, :, 0]


def _wary(model: SecretForest, queries: Secret) -> Secret:
    layout, t, q = model.layout, model.n_trees, queries.shape[0]
    m, w = layout.n_features, layout.width
    by_value = queries.reshape(q, m, w).transpose(2, 0, 1)
    flat = by_value.like(np.ascontiguousarray(by_value.data)).reshape(w * q, m)
    chosen = model.splits.reshape(-1, m).transpose()
    takes = (flat @ chosen).reshape(w, q, t, -1).transpose(1, 2, 3, 0)
    values = model.values.reshape(1, t, layout.n_nodes(model.depth), -1)
    for level in reversed(range(model.depth)):
        nodes, v = layout.n_nodes(level), values.shape[-1]
        children = values.reshape(values.shape[0], t, nodes, w, v)
        row = takes[:, :, model.level(level)].reshape(q, t, nodes, 1, w)
        values = (row @ children).reshape(q, t, nodes, v)
    return values[:, :, 0]
