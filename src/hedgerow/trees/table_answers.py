"""What a public model answers for the rows of a file, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import SqlQuery, TextFormat, encode, read_batches
from hedgerow.tables.frame import view
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.model import Model

ROWS = 1 << 16


def answer_table(
    model: Model,
    path: str | Path | SqlQuery,
    *,
    proba: bool = False,
    rows: int = ROWS,
    text: TextFormat | None = None,
) -> Iterator[pa.Table]:
    """Predict every row of a file or a query that may be larger than memory.

    `path`: CSV, Parquet or Arrow; or an `SqlQuery`. The model's columns are found by name;
    others are ignored. `proba`: class probabilities as well, a column ``p(class)`` each. Yields
    ``row`` (from 0, as errors count rows), then ``class`` or ``value``; a class that was not
    released is null. Raises H501 for probabilities of a model of numbers; what `read_batches` and
    `encode` raise, with the rows of the file that it is about.
    """
    if proba and not model.is_classifier:
        raise Code.BAD_PARAMETER.error(
            expected="a model with classes", found="a model of numbers", fix="leave out --proba"
        )
    done = 0
    for piece in read_batches(path, rows=rows, domain=model.domain, text=text or TextFormat()):
        frame = view(piece)
        for column in frame.columns:
            # Messages count the rows of the file, and so does the answer.
            column.first_row = done
        try:
            bins = encode(frame, model.domain).bins
        except HedgerowError as error:
            raise error.code.error(
                expected=error.expected, found=f"{path}: {error.found}", fix=error.fix
            ) from None
        columns: dict[str, Any] = {"row": np.arange(done, done + len(bins))}
        yield pa.table(columns | _answers(model, bins, proba))
        done += len(bins)


def _answers(model: Model, bins: Any, proba: bool) -> dict[str, Any]:
    target = model.domain.target
    assert target is not None
    if not model.is_classifier:
        values = model.decide(bins)[:, 0]
        if isinstance(model, Boosted) and target.bounds is not None:
            # A sum of steps may leave the bounds that the target has.
            values = np.clip(values, *target.bounds)
        return {"value": values}
    assert target.classes is not None
    index = model.predict_class(bins)
    labels = pa.array(target.classes).take(pa.array(index, mask=index < 0))
    if not proba:
        return {"class": labels}
    shares = model.distribution(bins)
    return {"class": labels} | share_columns(target.classes, shares)


def share_columns(classes: Sequence[Any], shares: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return a column for the probability of each class, named as files spell the class."""
    words = [str(c).lower() if isinstance(c, bool) else str(c) for c in classes]
    return {f"p({word})": shares[:, i] for i, word in enumerate(words)}
