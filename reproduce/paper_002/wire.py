"""What can be read off the wire, what a curious site writes down, and what one that lies does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.crypto.commutative import CipherKey, Curve25519Cipher, Elements
from hedgerow.protocols.vertical_id3.cardinality import Counts, Groups
from hedgerow.protocols.vertical_id3.messages import Message, from_bytes
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Task


class Wire:
    """A tap that keeps every message, read from its bytes."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, int, Message]] = []
        self.bytes = 0

    def __call__(self, sender: int, to: int, data: bytes) -> None:
        """Keep one message."""
        self.messages.append((sender, to, from_bytes(data, f"site {sender}")))
        self.bytes += len(data)

    def of(self, kind: type[Message], to: int | None = None) -> list[Any]:
        """Return the messages of a kind, to one site or to all."""
        return [
            message
            for _, receiver, message in self.messages
            if isinstance(message, kind) and to in (None, receiver)
        ]


class ManyKeys(Curve25519Cipher):
    """The cipher of a site that encrypts each of its own elements under another key."""

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.sets: list[dict[int, CipherKey]] = []

    def hash(self, messages: Sequence[bytes], purpose: str) -> Elements:
        """Hash, and remember which row of this site became which element."""
        found = super().hash(messages, purpose)
        if purpose == "records":
            self.rows = {element.tobytes(): row for row, element in enumerate(found)}
        return found

    def encrypt(self, key: CipherKey, elements: Elements) -> Elements:
        """Encrypt this site's own elements under a key each, those of others as due."""
        own = [self.rows.get(element.tobytes()) for element in elements]
        if None in own or not own:
            return super().encrypt(key, elements)
        self.sets.append({row: self.new_key() for row in own})
        one_by_one = zip(self.sets[-1].values(), elements[:, None], strict=True)
        return np.concatenate([super(ManyKeys, self).encrypt(*pair) for pair in one_by_one])

    def recognised(self, back: Sequence[bytes], others: bytes) -> list[int]:
        """Tell which of the rows of this site's first set are among elements of another site.

        `back` is that set as it came back, under the keys of the other sites as well; `others` are
        elements of another site under the keys of the other sites alone.
        """
        returned = {blob[i : i + 32] for blob in back for i in range(0, len(blob), 32)}
        elements = np.frombuffer(others, np.uint8).reshape(-1, 32)
        return [
            row
            for row, key in self.sets[0].items()
            if any(
                one.tobytes() in returned for one in super(ManyKeys, self).encrypt(key, elements)
            )
        ]


class Notebook:
    """What a site that keeps to the protocol writes down of it: the sizes that it is given.

    Takes the place of `Site.cardinality` once the site's program is made. `tables` have this site's
    groups as rows; classes of another site come in an order that it draws for each pass, so that
    columns are sorted.
    """

    def __init__(self, site: Site) -> None:
        self.tables: list[Counts] = []
        self._index, self._counting = site.index, site.cardinality
        site.cardinality = self

    def count(self, call: int, ring: tuple[int, ...], own: Groups) -> Task[Counts]:
        """See `SetCardinality.count`."""
        counts = yield from self._counting.count(call, ring, own)
        rows = np.moveaxis(counts, ring.index(self._index), 0).reshape(len(own), -1)
        self.tables.append(rows[:, np.lexsort(rows)])
        return counts

    def handle(self, sender: int, message: Message) -> Task[None] | None:
        """See `SetCardinality.handle`."""
        return self._counting.handle(sender, message)
