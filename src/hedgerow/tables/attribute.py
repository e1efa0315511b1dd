"""What is publicly known about one column: `Attribute` for inputs, `Target` for the label."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, Strict, model_validator

from hedgerow.errors import Code
from hedgerow.numbered import Numbered

Category = str | bool | int | float
"""A value of a categorical attribute, or a class label."""

MAX_BINS = 65_536
"""Bins of one attribute, all special ones included: an index fits two bytes."""

DEFAULT_BINS = 32

# Strict: "3" is not a number and 1 is not True, in a file as in Python.
_Number = Annotated[float, Strict(), AllowInfNan(False)]
_Count = Annotated[int, Strict()]
_Category = (
    Annotated[str, Strict()]
    | Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict(), AllowInfNan(False)]
)
_Name = Annotated[str, Strict(), Field(min_length=1)]


def family(value: Category) -> Literal["string", "bool", "number"]:
    """Return the type that matters when values are compared: 1 equals 1.0, but not True or "1"."""
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


_INEXACT = 2**53


def check_distinct(values: tuple[Category, ...], what: str) -> None:
    """Raise ValueError unless `values` are at least one, distinct and of one family."""
    if not values:
        raise ValueError(f"no {what}")
    if len({family(value) for value in values}) > 1:
        raise ValueError(f"{what} of several types: a column holds strings, bools or numbers")
    large = [v for v in values if not isinstance(v, str) and abs(v) >= _INEXACT]
    if large:
        # A column of such integers changes its values when one missing row makes it a float column.
        raise ValueError(f"{what} of 2**53 or more: {large[0]!r} is not exact as a float")
    # Within one family Python's equality is the one that encoding uses.
    if len(set(values)) < len(values):
        repeated = next(value for i, value in enumerate(values) if value in values[:i])
        raise ValueError(f"{what} not distinct: {repeated!r} is repeated")


def format_number(value: float, digits: int) -> str:
    """Write whole numbers whole and others with `digits` significant digits."""
    if value == round(value) and abs(value) < 1e15:
        return str(round(value))
    return f"{value:.{digits}g}"


class Attribute(Numbered):
    """One input column, as publicly known before any row is seen.

    Parameters
    ----------
    name : str
        The column's name.
    kind : {"numeric", "categorical"}
        What the values are.
    categories : tuple of str, bool, int or float, optional
        Categorical only: every value that can occur, distinct and of one type.
    bounds : (float, float), optional
        Numeric only, and required there: finite, lo < hi.
    bins : int, optional
        Numeric only: so many bins of equal width inside the bounds (2 to 65,535; 32 if neither
        `bins` nor `edges` is given).
    edges : tuple of float, optional
        Numeric only, instead of `bins`: the inner cut points, strictly increasing, within
        lo <= edge < hi. No edge at all means a single bin.
    missing : {"error", "own bin"}, default="error"
        Whether a missing value is refused or has a bin of its own, always the last one.
    outside : {"clip", "error"}, optional
        What to do with a number outside the bounds (default: clip) or a value that is not listed
        (default: error; "clip" adds one bin "other" for all of them, after the categories).

    Raises
    ------
    InputError
        H113 if any of this does not hold, H118 if there are more than 65,536 bins.
    """

    code: ClassVar[Code] = Code.BAD_ATTRIBUTE

    name: _Name
    kind: Literal["numeric", "categorical"]
    categories: tuple[_Category, ...] | None = None
    bounds: tuple[_Number, _Number] | None = None
    bins: _Count | None = None
    edges: tuple[_Number, ...] | None = None
    missing: Literal["error", "own bin"] = "error"
    outside: Literal["clip", "error"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        """Make the defaults explicit, so that equal attributes compare and print equal."""
        if not isinstance(data, Mapping):
            return data
        filled = dict(data)
        numeric = filled.get("kind") == "numeric"
        if numeric and filled.get("bins") is None and filled.get("edges") is None:
            filled["bins"] = DEFAULT_BINS
        if filled.get("outside") is None:
            filled["outside"] = "clip" if numeric else "error"
        return filled

    @model_validator(mode="after")
    def _well_defined(self) -> Self:
        if self.kind == "categorical":
            self._check_categorical()
        else:
            self._check_numeric()
        if self.n_bins > MAX_BINS:
            raise Code.TOO_MANY_BINS.error(
                found=f"{self.n_bins:,} bins for attribute {self.name!r}"
            )
        return self

    def _check_categorical(self) -> None:
        for field in ("bounds", "bins", "edges"):
            if getattr(self, field) is not None:
                raise ValueError(f"{field} given for a categorical attribute")
        if self.categories is None:
            raise ValueError("categories are required for a categorical attribute")
        check_distinct(self.categories, "categories")

    def _check_numeric(self) -> None:
        if self.categories is not None:
            raise ValueError("categories given for a numeric attribute")
        if self.bounds is None:
            raise ValueError("bounds=(lo, hi) are required for a numeric attribute")
        lo, hi = self.bounds
        if not lo < hi:
            raise ValueError(f"bounds must satisfy lo < hi, found {lo} and {hi}")
        if self.edges is not None and self.bins is not None:
            raise ValueError("give bins or edges, not both")
        if self.bins is not None:
            if not 2 <= self.bins < MAX_BINS:
                raise ValueError(f"bins must be within 2 and {MAX_BINS - 1:,}, found {self.bins}")
            if not math.isfinite(hi - lo):
                raise ValueError("bounds too far apart for bins of equal width")
        cuts = self.cuts
        if np.any(cuts[1:] <= cuts[:-1]):
            raise ValueError(
                "bounds too narrow for so many bins"
                if self.edges is None
                else "edges must be strictly increasing"
            )
        if cuts.size and not (lo <= cuts[0] and cuts[-1] < hi):
            raise ValueError(f"edges must satisfy lo <= edge < hi for the bounds {lo} and {hi}")

    @property
    def n_values(self) -> int:
        """Number of bins for values, the bin "other" included and the one for missing not."""
        if self.categories is not None:
            return len(self.categories) + (self.outside == "clip")
        return (self.bins or 0) if self.edges is None else len(self.edges) + 1

    @property
    def n_bins(self) -> int:
        """Number of bins; with missing="own bin" the last one is for missing values."""
        return self.n_values + (self.missing == "own bin")

    @cached_property
    def cuts(self) -> NDArray[np.float64]:
        """Inner cut points of a numeric attribute, float64 (n_values - 1,), read-only.

        Bin b holds the x with cuts[b - 1] < x <= cuts[b]. Empty for a categorical attribute.
        """
        if self.bounds is None:
            cuts = np.empty(0)
        elif self.edges is not None:
            cuts = np.array(self.edges, dtype=np.float64)
        else:
            cuts = np.linspace(*self.bounds, self.n_values + 1)[1:-1]
        cuts.flags.writeable = False
        return cuts

    def labels(self) -> list[str]:
        """Return one readable label per bin: "<= 3.5", "(3.5, 7]", "> 7", "missing", "other"."""
        if self.categories is not None:
            labels = [str(category) for category in self.categories]
            if self.outside == "clip":
                labels.append(_unused_label("other", labels))
        else:
            labels = _interval_labels(self.cuts)
        if self.missing == "own bin":
            labels.append(_unused_label("missing", labels))
        return labels


def _unused_label(label: str, labels: list[str]) -> str:
    """Put `label` in brackets where a category already has that name."""
    while label in labels:
        label = f"({label})"
    return label


def _interval_labels(cuts: NDArray[np.float64]) -> list[str]:
    if not cuts.size:
        return ["any value"]
    for digits in (6, 9, 12, 17):
        shown = [format_number(cut, digits) for cut in cuts.tolist()]
        if len(set(shown)) == len(shown):
            break
    inner = [f"({lo}, {hi}]" for lo, hi in itertools.pairwise(shown)]
    return [f"<= {shown[0]}", *inner, f"> {shown[-1]}"]


class Target(Numbered):
    """The label column, as publicly known: its classes, or the bounds of a number.

    Parameters
    ----------
    name : str, default="target"
        The column's name.
    classes : tuple of str, bool, int or float, optional
        Every class that can occur, distinct and of one type.
    bounds : (float, float), optional
        Finite, lo < hi. Exactly one of `classes` and `bounds` is given.
    outside : {"clip", "error"}, default="clip"
        What to do with a number outside the bounds. A class that is not listed is always an error.

    Raises
    ------
    InputError
        H116 if any of this does not hold.
    """

    code: ClassVar[Code] = Code.BAD_TARGET

    name: _Name = "target"
    classes: tuple[_Category, ...] | None = None
    bounds: tuple[_Number, _Number] | None = None
    outside: Literal["clip", "error"] = "clip"

    @model_validator(mode="after")
    def _well_defined(self) -> Self:
        if (self.classes is None) == (self.bounds is None):
            raise ValueError("give exactly one of classes and bounds")
        if self.classes is not None:
            check_distinct(self.classes, "classes")
            if len(self.classes) > MAX_BINS:
                raise ValueError(f"at most {MAX_BINS:,} classes, found {len(self.classes):,}")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"bounds must satisfy lo < hi, found {self.bounds}")
        return self

    @property
    def n_classes(self) -> int | None:
        """Number of classes, or None for a numeric target."""
        return None if self.classes is None else len(self.classes)
