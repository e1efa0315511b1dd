"""Links: what the raw score of boosted trees says about a target, and how wide it is."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.tables.attribute import Target
from hedgerow.tables.domain import Domain

Link = Literal["identity", "logistic", "softmax"]


def step_domain(domain: Domain) -> Domain:
    """Domain of the trees of a `Boosted` model: its attributes, and a number as the target.

    For a target with bounds it is the domain itself. For classes the number is a step of the raw
    score; its bounds, -1 and 1, are the scale of drawings and bind no value.
    """
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    if domain.target.classes is None:
        return domain
    return Domain(
        attributes=domain.attributes,
        target=Target(name=domain.target.name, bounds=(-1.0, 1.0)),
        capacity=domain.capacity,
        provenance=domain.provenance,
    )


def n_scores(domain: Domain, link: Link) -> int:
    """Columns of the raw score for a domain: K for more than two classes, otherwise one.

    Raises
    ------
    HedgerowError
        `Code.BAD_TARGET` or `Code.BAD_PARAMETER` if the link does not fit the target.
    """
    check_option("link", link, Link)
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    classes = domain.target.classes
    if classes is not None and len(classes) < 2:
        raise Code.BAD_TARGET.error(found="a target of one class", expected="two or more classes")
    fits = "identity" if classes is None else "logistic" if len(classes) == 2 else "softmax"
    if link != fits:
        kind = "bounds" if classes is None else f"{len(classes)} classes"
        raise Code.BAD_PARAMETER.error(
            found=f"link={link!r} for a target with {kind}", expected=f"link={fits!r}"
        )
    return len(classes) if classes is not None and len(classes) > 2 else 1


def probabilities(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply the softmax to raw scores; a single column is the log-odds of the second class."""
    if raw.shape[1] == 1:
        # Each side from its own exponential: one minus the other would lose small ones.
        return np.exp(-np.logaddexp(0.0, np.hstack([raw, -raw])))
    # A difference may overflow; its exponential is 0 all the same.
    with np.errstate(over="ignore"):
        scaled = np.exp(raw - raw.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = scaled / scaled.sum(axis=1, keepdims=True)
    return shares
