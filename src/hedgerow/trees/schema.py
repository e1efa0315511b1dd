"""The JSON document of a model: what is written, and what is checked before any of it is used.

::

    {"format": "hedgerow-model", "version": 1, "type": "tree", "domain": {...}, "tree": {...}}

A model that version 1.0 could not say so carries ``"minor": 1`` besides (subsets, boosted trees),
2 (boosted trees with the noise of their sums) or 3 (a score for each class against the rest): older
releases refuse it as a whole, and every other file stays as they know it.

The arrays of a tree are lists; a number that was not released (NaN) is null. The format is fixed
by ``model.schema.json`` beside this file. A model file comes from elsewhere and is not trusted:
every refusal is `Code.BAD_MODEL_FILE` or `Code.MODEL_VERSION`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import shown
from hedgerow.tables.domain import Domain
from hedgerow.trees.layout import SplitKind

FORMAT = "hedgerow-model"
VERSION = 1
MINOR = 3
"""Latest minor version: 1 brought tables of subsets in rows, and boosted trees; 2 their noise; 3
scores of classes each against the rest."""
BODY = {"tree": "tree", "forest": "trees", "boosted": "boosted"}
"""Types of model and the key under which each keeps its nodes."""

MAX_TOTAL_BINS = 1 << 24
"""Bins that the numeric attributes of a model may declare together: one short line of a file
makes memory of them."""
MAX_CELLS = 1 << 27
"""Nodes times outputs, or subsets times bins, that a tree in a file may have, for the same
reason."""

_INTEGERS = ("kind", "feature", "cut", "first_child")
_TREE_KEYS = {*_INTEGERS, "value", "weight", "subsets"}
T = TypeVar("T")


class ModelDocument(ABC):
    """A public model that is written as a document, and read from one."""

    @abstractmethod
    def to_dict(self, *, privacy: dict[str, Any] | None = None) -> dict[str, Any]:
        """Model document (see ``model.schema.json``), with the ledger's JSON object if given."""

    @classmethod
    @abstractmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read a model document; checked whole, `Code.BAD_MODEL_FILE` otherwise."""

    def to_json(self, *, privacy: dict[str, Any] | None = None) -> str:
        """Model document as JSON text; floats are written so that they are read back exactly."""
        return dumps(self.to_dict(privacy=privacy))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read JSON text as `to_json` writes it."""
        return cls.from_dict(loads(text))


def document(
    type_: str, domain: Domain, body: Any, privacy: dict[str, Any] | None, *, minor: int
) -> dict[str, Any]:
    """Put the model document together; `privacy` is the ledger's JSON object, kept as it is.

    `minor` is the earliest minor version that can say what the body says.
    """
    made = {
        "format": FORMAT,
        "version": VERSION,
        **({"minor": minor} if minor else {}),
        "type": type_,
        "domain": domain.to_dict(),
        BODY[type_]: body,
    }
    return made if privacy is None else {**made, "privacy": privacy}


def open_document(found: Any, type_: str) -> tuple[Domain, Any, dict[str, Any] | None]:
    """Check the frame of a model document and read its domain.

    The body is still unchecked.
    """
    kind = document_type(found)
    if kind != type_:
        refuse(f"a model of type {kind!r} where a {type_} is read")
    frame = {"format", "version", "type", "domain", BODY[type_]}
    keys(found, frame, {"privacy", "minor"}, "the model")
    privacy = found.get("privacy")
    if "privacy" in found and not isinstance(privacy, dict):
        refuse(f"a privacy object of type {type(privacy).__name__}")
    if not isinstance(found["domain"], dict):
        refuse(f"a domain of type {type(found['domain']).__name__}")
    _check_bins(found["domain"])
    return build(lambda: Domain.from_dict(found["domain"])), found[BODY[type_]], privacy


def document_type(found: Any) -> str:
    """Type of a model document, after format and version were checked."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        refuse(f"no object with format {FORMAT!r}")
    version = found.get("version")
    if type(version) is not int or version != VERSION:
        raise Code.MODEL_VERSION.error(
            found=f"version {shown(version)}", expected=f"version {VERSION}"
        )
    minor = minor_version(found)
    if type(minor) is not int or not 0 <= minor <= MINOR:
        raise Code.MODEL_VERSION.error(
            found=f"version {VERSION}, minor version {shown(minor)}",
            expected=f"a minor version up to {MINOR}",
        )
    type_ = found.get("type")
    if not isinstance(type_, str) or type_ not in BODY or (type_ == "boosted" and not minor):
        refuse(f"a model of unknown type {shown(type_)}")
    return type_


def minor_version(found: dict[str, Any]) -> Any:
    """Minor version that a document states, 0 if it states none."""
    return found.get("minor", 0)


def minor_needed(subsets: Iterable[NDArray[np.bool_]]) -> int:
    """Earliest minor version that can say these tables of subsets, one per tree."""
    return int(any(len(table) for table in subsets))


def pack_tree(arrays: dict[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """Turn the arrays of a tree into lists; NaN becomes null, an unreleased row one null."""
    packed: dict[str, list[Any]] = {name: arrays[name].tolist() for name in _INTEGERS}
    unreleased = np.isnan(arrays["value"][:, 0])
    packed["value"] = [
        None if gone else row
        for gone, row in zip(unreleased.tolist(), arrays["value"].tolist(), strict=True)
    ]
    packed["weight"] = [None if x != x else x for x in arrays["weight"].tolist()]
    packed["subsets"] = arrays["subsets"].astype(np.uint8).tolist()
    return packed


def unpack_tree(packed: Any, domain: Domain, minor: int) -> dict[str, NDArray[Any]]:
    """Read the lists of one tree; `Tree` itself checks what the numbers mean.

    `domain`: the tree's domain; its target says how many outputs there are.
    """
    target = domain.target
    k = 1 if target is None or target.classes is None else len(target.classes)
    keys(packed, _TREE_KEYS - {"subsets"}, {"subsets"}, "a tree")
    arrays: dict[str, NDArray[Any]] = {name: _integers(packed, name) for name in _INTEGERS}
    if minor:
        arrays["subsets"] = _rows(packed.get("subsets", []))
    else:
        arrays["cut"], arrays["subsets"] = _rows_of_1_0(packed, arrays, domain.n_bins)
    arrays["weight"] = floats(packed, "weight")
    rows = _list(packed, "value")
    if len(rows) * k > MAX_CELLS:
        refuse(f"more than {MAX_CELLS:,} values")
    released = [i for i, row in enumerate(rows) if row is not None]
    if not all(isinstance(rows[i], list) and len(rows[i]) == k for i in released):
        refuse(f"a row of value that is neither null nor a list of {k} numbers")
    flat = [x for i in released for x in rows[i]]
    if None in flat:
        refuse("a row of value that is null in part only")
    arrays["value"] = np.full((len(rows), k), np.nan)
    arrays["value"][released] = _floats(flat, "value").reshape(-1, k)
    return arrays


def build(make: Callable[[], T]) -> T:
    """Call `make`; what it refuses becomes `Code.BAD_MODEL_FILE`."""
    try:
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            return make()
    except HedgerowError as error:
        if error.code in (Code.BAD_MODEL_FILE, Code.MODEL_VERSION):
            raise
        raise Code.BAD_MODEL_FILE.error(
            found=f"{shown(error.found)} ({error.code.number})"
        ) from error


def dumps(found: dict[str, Any]) -> str:
    """Write compact JSON; floats as Python's shortest form that is read back exactly."""
    return build(
        lambda: json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )


def loads(text: str | bytes) -> dict[str, Any]:
    """Read the text of a model document; see `hedgerow.jsonfile.loads`."""
    return jsonfile.loads(text, Code.BAD_MODEL_FILE)


def keys(found: Any, needed: set[str], allowed: set[str], where: str) -> None:
    """Refuse anything but an object with the needed and at most the allowed keys."""
    if not isinstance(found, dict):
        refuse(f"{where} of type {type(found).__name__}")
    if missing := sorted(needed - found.keys()):
        refuse(f"{where} without {', '.join(missing)}")
    if extra := sorted(map(str, found.keys() - needed - allowed)):
        refuse(f"{where} with unknown keys {shown(', '.join(extra))}")


def floats(packed: dict[str, Any], name: str) -> NDArray[np.float64]:
    """Read a list of numbers; null is NaN."""
    return _floats(_list(packed, name), name)


def refuse(found: str) -> NoReturn:
    """Raise `Code.BAD_MODEL_FILE`."""
    raise Code.BAD_MODEL_FILE.error(found=found)


def _check_bins(domain: dict[str, Any]) -> None:
    attributes = domain.get("attributes")
    if not isinstance(attributes, list):
        refuse("a domain without a list of attributes")
    bins = [attribute.get("bins") for attribute in attributes if isinstance(attribute, dict)]
    if sum(b for b in bins if isinstance(b, int)) > MAX_TOTAL_BINS:
        refuse(f"a domain of more than {MAX_TOTAL_BINS:,} bins")


def _list(packed: dict[str, Any], name: str) -> list[Any]:
    if not isinstance(packed[name], list):
        refuse(f"{name} of type {type(packed[name]).__name__}")
    return list(packed[name])


def _integers(packed: dict[str, Any], name: str) -> NDArray[np.int64]:
    numbers = _list(packed, name)
    # bool is an int to Python, and 3.0 is none.
    if not all(type(x) is int and abs(x) < 2**31 for x in numbers):
        refuse(f"{name} with entries that are not integers of 32 bits")
    return np.array(numbers, dtype=np.int64)


def _rows(found: Any) -> NDArray[np.bool_]:
    """Read a table of subsets: rows of one length, whose entries are 0 and 1."""
    if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
        refuse("subsets that are no list of rows")
    if not found:
        return np.zeros((0, 0), dtype=np.bool_)
    width = len(found[0])
    if any(len(row) != width for row in found):
        refuse("subsets with rows of different lengths")
    flat = [x for row in found for x in row]
    if not all(type(x) is int and x in (0, 1) for x in flat):
        refuse("subsets with entries other than 0 and 1")
    return np.array(flat, dtype=np.bool_).reshape(len(found), width)


def _rows_of_1_0(
    packed: dict[str, Any], arrays: dict[str, NDArray[Any]], n_bins: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read what version 1.0 kept as one list: `cut` was a start in it, and 1 the second child.

    Returns them as `Tree` takes them.
    """
    flat = _integers(packed, "subsets") if "subsets" in packed else np.empty(0, dtype=np.int64)
    if np.any((flat != 0) & (flat != 1)):
        refuse("subsets with entries other than 0 and 1")
    kind, feature, cut = arrays["kind"], arrays["feature"], arrays["cut"].copy()
    if not len(kind) == len(feature) == len(cut):
        refuse("arrays of different lengths")
    nodes = np.flatnonzero(kind == SplitKind.SUBSET)
    if not len(nodes):
        return cut, np.zeros((0, 0), dtype=np.bool_)
    if np.any((feature[nodes] < 0) | (feature[nodes] >= len(n_bins))):
        refuse("a feature outside the domain")
    widths = n_bins[feature[nodes]].astype(np.int64)
    if np.any((cut[nodes] < 0) | (cut[nodes] + widths > len(flat))):
        refuse("a subset outside `subsets`")
    starts, cut[nodes] = np.unique(cut[nodes], return_inverse=True)
    width = int(widths.max())
    # Starts may overlap, so that a short list could make a large table.
    if len(starts) * width > MAX_CELLS:
        refuse(f"subsets of more than {MAX_CELLS:,} bins together")
    first = np.concatenate([flat == 0, np.zeros(width, dtype=np.bool_)])
    return cut, np.lib.stride_tricks.sliding_window_view(first, width)[starts]


def _floats(numbers: list[Any], name: str) -> NDArray[np.float64]:
    if not all(x is None or type(x) in (int, float) for x in numbers):
        refuse(f"{name} with entries that are not numbers or null")
    return build(lambda: np.array(numbers, dtype=np.float64))
