"""What an analyst knows about a model, and what it gets from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.store.models import Manifest
from hedgerow.parties.wire.client import Reply
from hedgerow.protocols.kinds import KINDS, kind_named
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree


@dataclass(frozen=True)
class KnownModel:
    """What an analyst knows about a model.

    `manifest`: the same at all servers, but for whose shares it is about.
    `left`: rows that this analyst may still ask, when the servers were asked.
    `tree`: where it was opened.
    """

    manifest: Manifest
    plan: Any = field(repr=False)
    left: int
    tree: Tree | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, name: str, replies: Sequence[Reply]) -> KnownModel:
        """Read what the servers say about a model, which must be the same at all of them."""
        found: list[tuple[Manifest, int, bytes]] = []
        for reply in replies:
            length, left = reply.fields.get("manifest"), reply.fields.get("left")
            if type(length) is not int or type(left) is not int:
                raise Code.BAD_REPLY.error(found="a model without a manifest")
            text = _text(reply.payload[:length])
            found.append((Manifest.parse(text), left, reply.payload[length:]))
        public = {_alike(manifest) for manifest, _, _ in found}
        if len(public) > 1 or len({tree for _, _, tree in found}) > 1:
            raise Code.BAD_REPLY.error(
                expected=f"one model {name} at all servers", found="models that differ"
            )
        manifest, _, tree = found[0]
        if manifest.kind not in KINDS:
            raise Code.BAD_PARAMETER.error(
                expected=f"a kind of model among {', '.join(KINDS)}",
                found=f"kind {jsonfile.shown(manifest.kind)}",
                fix="use one version of Hedgerow here and at the servers",
            )
        opened = jsonfile.loads(_text(tree), Code.BAD_MODEL_FILE) if tree else None
        return cls(
            manifest,
            manifest.read_plan(),
            min(left for _, left, _ in found),
            None if opened is None else Tree.from_dict(opened),
        )

    @property
    def classes(self) -> tuple[Any, ...]:
        """Labels, in the order of the answers' numbers; none where the target is a number."""
        assert self.plan.domain.target is not None
        return tuple(self.plan.domain.target.classes or ())


@dataclass(frozen=True)
class Answers:
    """Answers to rows.

    `index`: class of every row, as its place among `classes`; none where the target is a number.
    `shares`: class probabilities, where they were asked for.
    `values`: of a target that is a number.
    """

    index: NDArray[np.int64]
    classes: tuple[Any, ...]
    shares: NDArray[np.float64] | None = None
    values: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.index) if self.values is None else len(self.values)

    @property
    def labels(self) -> list[Any]:
        """Class label of every row, or its value."""
        if self.values is not None:
            return list(self.values.tolist())
        return [self.classes[i] for i in self.index]


def read_answers(known: KnownModel, opened: NDArray[np.int64], what: str) -> Answers:
    """Return opened numbers as answers; H884 for numbers that no server of good will gives."""
    kind = kind_named(known.manifest.kind)
    found = kind.read(known.plan, checked(opened, known) if what == "class" else opened, what)
    if what == "value":
        return Answers(np.empty(0, dtype=np.int64), (), values=found)
    index, shares = kind.classified(known.plan, found, what)
    return Answers(index, known.classes, shares)


def checked(index: NDArray[np.int64], known: KnownModel) -> NDArray[np.int64]:
    """Return numbers of classes that exist; H884 for others."""
    if index.size and not 0 <= index.min() <= index.max() < len(known.classes):
        raise Code.BAD_REPLY.error(
            expected=f"classes from 0 to {len(known.classes) - 1}", found="other numbers"
        )
    return index


def by_itself(known: KnownModel, rows: Encoded, *, proba: bool) -> Answers:
    """Answer with an opened tree, here."""
    assert known.tree is not None
    index = known.tree.predict_class(rows.bins).astype(np.int64)
    shares = known.tree.distribution(rows.bins) if proba else None
    return Answers(index, known.classes, shares)


def _alike(manifest: Manifest) -> str:
    """Return what must be the same at all servers."""
    return replace(manifest, server=0, files={}).to_json()


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Code.BAD_REPLY.error(found="a text that is none") from None
