"""`SiteJob`: what all sites of a vertical ID3 agree on before it begins."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Literal

from hedgerow.errors import Code
from hedgerow.secure.replicated.core import SERVERS

Ring = Literal["needed", "all"]
AnswersTo = Literal["asker", "class site"]
_KEY = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class SiteJob:
    """The public facts of a run: checked `VerticalOptions`, and who takes part; else H755.

    `class_at` is None if all sites hold the class. Only the sites with constraints are "needed" in
    a `ring`, which follows from the structure of the tree; another would bring all its records.
    `align` finds the records that all sites have first. Three `server_keys`, public sealing keys of
    64 hexadecimal digits, are of servers that count on shares (`vertical_id3.secret.cardinality`);
    without them sites count by a commutative cipher.
    """

    n_sites: int
    class_at: int | None
    n_classes: int
    max_depth: int | None = None
    ring: Ring = "needed"
    align: bool = False
    answers_to: AnswersTo = "asker"
    epsilon: float | None = None
    server_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        reasons = (
            (self.n_sites < 2, "one site" if self.n_sites == 1 else f"{self.n_sites} sites"),
            (
                self.class_at is not None and not 0 <= self.class_at < self.n_sites,
                f"the class at site {self.class_at} of {self.n_sites}",
            ),
            (
                self.n_classes < 2,
                "one class" if self.n_classes == 1 else f"{self.n_classes} classes",
            ),
            (
                self.answers_to == "class site" and self.class_at is None,
                "answers for the class site alone where all sites hold the class",
            ),
            (
                (len(self.server_keys), len(set(self.server_keys)))
                not in ((0, 0), (SERVERS, SERVERS))
                or not all(_KEY.fullmatch(key) for key in self.server_keys),
                f"{len(self.server_keys)} keys of servers, or what is no key",
            ),
        )
        for wrong, found in reasons:
            if wrong:
                raise Code.BAD_SITES.error(found=found)

    @property
    def secret(self) -> bool:
        """Whether counts stay secret, on shares of three servers."""
        return bool(self.server_keys)

    @property
    def starter(self) -> int:
        """The site that begins: the class site, or the first."""
        return 0 if self.class_at is None else self.class_at

    def knows_class(self, site: int) -> bool:
        """Whether a site holds the class."""
        return self.class_at is None or site == self.class_at

    def ring_of(self, *groups: tuple[int, ...]) -> tuple[int, ...]:
        """Return who takes part in an intersection, of those that have to; sorted."""
        if self.ring == "all":
            return tuple(range(self.n_sites))
        return tuple(sorted({site for group in groups for site in group}))

    def digest(self) -> bytes:
        """Return what equal jobs have in common, 32 bytes."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(b"hedgerow/ppid3/v1/" + text.encode()).digest()
