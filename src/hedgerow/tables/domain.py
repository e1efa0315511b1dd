"""`Domain`: everything that is public about a table, and nothing that is read from its rows.

A domain as a TOML file::

    capacity = 50_000            # public upper bound on the number of rows; optional

    [target]
    name = "income"
    classes = ["<=50K", ">50K"]

    [[attributes]]
    name = "age"
    kind = "numeric"
    bounds = [17, 90]            # values outside are clipped unless outside = "error"
    bins = 32                    # or edges = [25, 40, 65]

    [[attributes]]
    name = "workclass"
    kind = "categorical"
    categories = ["Private", "Public", "Self-employed"]
    missing = "own bin"          # the default is "error"
    outside = "clip"             # unlisted values share the bin "other"
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import tomli_w
from numpy.typing import NDArray
from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code, HedgerowError, ask_whether
from hedgerow.numbered import Numbered
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.column import name_list
from hedgerow.tables.suggest import Missing, Spacing, Task, suggest_facts, warn_read

Provenance = Literal["declared", "read from data", "confirmed public"]


class Domain(Numbered):
    """The public facts of a table: attributes, target and capacity.

    Parameters
    ----------
    attributes : tuple of Attribute
        At least one; names are distinct.
    target : Target, optional
        The label, where there is one.
    capacity : int, optional
        Public upper bound on the number of rows.
    provenance : {"declared", "read from data", "confirmed public"}, default="declared"
        Where the facts come from. A finite epsilon is refused for "read from data".

    Raises
    ------
    InputError
        H117 if the domain is not well defined, H106 if a name occurs twice, H113 for a bad
        attribute and H116 for a bad target.
    """

    code: ClassVar[Code] = Code.BAD_DOMAIN

    attributes: Annotated[tuple[Attribute, ...], Field(min_length=1)]
    target: Target | None = None
    capacity: Annotated[int, Strict(), Field(ge=1)] | None = None
    provenance: Provenance = "declared"

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        names = [*self.names, *([self.target.name] if self.target else [])]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise Code.DUPLICATE_COLUMN.error(
                found=f"{', '.join(map(repr, repeated))} more than once in the domain"
            )
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def n_bins(self) -> NDArray[np.int32]:
        """Number of bins per attribute, int32 (d,), read-only."""
        n_bins = np.array([attribute.n_bins for attribute in self.attributes], dtype=np.int32)
        n_bins.flags.writeable = False
        return n_bins

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an encoded table: uint8 if every attribute has at most 256 bins, else uint16."""
        return np.dtype(np.uint8 if int(self.n_bins.max()) <= 256 else np.uint16)

    @property
    def is_public(self) -> bool:
        """Whether the domain may be used for a claim of privacy."""
        return self.provenance != "read from data"

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Return the position of the attribute called `name`."""
        try:
            return self._positions[name]
        except KeyError:
            raise Code.MISSING_COLUMN.error(
                expected=f"one of the attributes {name_list(self.names)}",
                found=repr(name) + ask_whether(name, self.names),
            ) from None

    def indices(self, columns: Iterable[str | int] | None = None) -> list[int]:
        """Return the positions of `columns`, names or positions; of all attributes if None."""
        if columns is None:
            return list(range(len(self.attributes)))
        found = [self.index(c) if isinstance(c, str) else int(c) for c in columns]
        wrong = [i for i in found if not 0 <= i < len(self.attributes)]
        if wrong:
            raise Code.MISSING_COLUMN.error(
                expected=f"positions from 0 to {len(self.attributes) - 1}",
                found=f"position {wrong[0]}",
            )
        return found

    def select(self, columns: Iterable[str | int], *, target: bool = True) -> Domain:
        """Return the domain of some columns, in that order, with or without the target."""
        return Domain(
            attributes=tuple(self.attributes[i] for i in self.indices(columns)),
            target=self.target if target else None,
            capacity=self.capacity,
            provenance=self.provenance,
        )

    @classmethod
    def suggest(
        cls,
        frame: Any,
        target: Any = None,
        *,
        max_bins: int = 255,
        spacing: Spacing = "quantile",
        missing: Missing = "own bin",
        target_name: str | None = None,
        task: Task = "auto",
        capacity: int | None = None,
        quiet: bool = False,
    ) -> Domain:
        """Draft a domain by READING THE DATA; it has to be checked before it can be public.

        The result is marked "read from data", which every private estimator refuses: the largest
        salary is somebody's. Check each value, then call `confirm_public`. It warns of that, unless
        `quiet`, for callers that make no claim of privacy.

        `frame` is anything that `encode` takes, `target` the label (n,), or the name of its column.
        "quantile" `spacing` gives each of at most `max_bins` distinct values a bin (nothing is
        lost) and cuts more at quantiles; "uniform" makes `max_bins` bins of equal width. `missing`
        says what to do where a column has missing values, `target_name` names a target that has no
        name. With `task` "auto", numbers are classes if they are whole and there are at most 100
        different ones. `capacity` is public, and not read from the data.
        """
        attributes, label = suggest_facts(
            frame,
            target,
            max_bins=max_bins,
            spacing=spacing,
            missing=missing,
            target_name=target_name,
            task=task,
        )
        domain = cls(
            attributes=attributes,
            target=label,
            capacity=capacity,
            provenance="read from data",
        )
        if not quiet:
            warn_read()
        return domain

    def confirm_public(self, *, capacity: int | None = None) -> Domain:
        """Return the domain as public knowledge: the caller vouches that no value is private.

        `capacity`: public upper bound on the number of rows, if it is not set yet or another is
        wanted.
        """
        if self.is_public and capacity is None:
            return self
        provenance = self.provenance if self.is_public else "confirmed public"
        more = {} if capacity is None else {"capacity": capacity}
        return self.model_copy(update={"provenance": provenance, **more})

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-able values, without the fields that are not set."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: str = "the domain") -> Domain:
        """Build a domain from what `to_dict` returned; `source` is what errors call it."""
        if not isinstance(data, Mapping):
            raise Code.BAD_DOMAIN_FILE.error(found=f"{type(data).__name__} in {source}")
        try:
            return cls.model_validate(data)
        except HedgerowError as error:
            # The advice about a domain ends as that about its file does.
            remedy = error.fix.partition("; `Domain")[0]
            raise Code.BAD_DOMAIN_FILE.error(
                found=f"in {source}: {error.code.spec.title}: {error.found}",
                fix=f"{remedy}; `Domain.to_toml()` of any domain shows the format",
            ) from error

    def to_toml(self) -> str:
        """Return the domain as the text of a TOML file."""
        data = self.to_dict()
        attributes = data.pop("attributes")
        # Tables come last in TOML: what follows a [table] header belongs to it.
        target = {"target": data.pop("target")} if self.target else {}
        return tomli_w.dumps(data | target | {"attributes": attributes})

    @classmethod
    def from_toml(cls, source: str | Path) -> Domain:
        """Read a domain from TOML.

        `source`: a file, or the text itself: a str with a line break in it is text, any other a
        path. Raises H114 if there is no such file, it is not TOML, or it is not a domain.
        """
        if isinstance(source, str) and "\n" in source:
            name, text = "the text", source
        else:
            name = str(source)
            try:
                text = Path(source).read_text(encoding="utf-8")
            except FileNotFoundError:
                raise Code.BAD_DOMAIN_FILE.error(
                    expected="the file of a domain (TOML)",
                    found=f"{name}: the file was not found",
                    fix="check the path; `hedgerow domain suggest` writes a draft",
                ) from None
            # Not a path (a null character) and not UTF-8 are both a ValueError.
            except (OSError, ValueError) as error:
                raise Code.BAD_DOMAIN_FILE.error(found=f"{name}: {error}") from None
        try:
            data = tomllib.loads(text)
        # An integer of very many digits is a ValueError of its own.
        except (ValueError, RecursionError) as error:
            raise Code.BAD_DOMAIN_FILE.error(found=f"in {name}: {error}") from None
        return cls.from_dict(data, source=name)
