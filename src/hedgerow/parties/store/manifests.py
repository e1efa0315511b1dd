"""`UploadManifest`: what everybody may know about an upload, the same at all three servers.

An owner shares the bits of its table (`sharing.uploaded`) as x_0 = F(s_0), x_1 = F(s_1)
and the correction x_2 (`hedgerow.secure.replicated.outside`). The manifest has a digest of each of
the three, so that every server can check its parts, and equal manifests mean parts of one table.

Server 0 holds both seeds: with a plain hash of the correction it could try out tables. So the
correction is hashed behind a salt of 32 random bytes which servers 1 and 2 alone are sent.

Version 2 is an upload of rows with a numeric target, of which version 1 knows nothing; all others
of rows are version 1. Version 3 has columns, in slots with tags by which servers join them
(`hedgerow.protocols.sharing.join`). Columns of versions 1 and 2 were placed by a key and a hash of
all ids; such an upload is still listed, and jobs refuse it.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from hedgerow import jsonfile
from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.names import Name
from hedgerow.protocols.sharing.uploaded import n_planes
from hedgerow.secure.secret import words
from hedgerow.tables import Domain
from hedgerow.tables.ids import IdKind

SALT_BYTES = 32
MAX_MANIFEST_BYTES = 1 << 20
MAX_ROWS = 1 << 32
_SEED, _CORRECTION = b"hedgerow/upload/seed/v1", b"hedgerow/upload/correction/v1"
_HELD = ((0, 1), (1,), (0,))

Digest = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{64}$")]


class UploadManifest(Numbered):
    """An upload in public terms; its id is used once, for ever. H887.

    `rows` are slots; how many of them hold records is secret. `domain` is of its columns alone.
    `seeds` and `correction` are digests. Of columns, `alignment` is a check value of the owners'
    key, equal where that is the same, and `ids` what their owner says its ids are.
    """

    code: ClassVar[Code] = Code.BAD_UPLOAD

    version: Literal[1, 2, 3] = 1
    id: Name
    population: Name
    owner: Name
    rows: Annotated[int, Field(strict=True, ge=1, le=MAX_ROWS)]
    seeds: tuple[Digest, Digest]
    correction: Digest
    alignment: Digest | Literal[""] = ""
    ids: IdKind | None = None
    domain: Domain

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(
                found="an upload under a domain that was read from data"
            )
        if self.version != (wanted := format_version(self.domain, tagged=self.tagged)):
            raise ValueError(f"version {self.version} of an upload that is one of version {wanted}")
        if self.tagged and not self.alignment:
            raise ValueError("ids without the check value of a key")
        return self

    @property
    def has_target(self) -> bool:
        """Whether the target is among the columns."""
        return self.domain.target is not None

    @property
    def tagged(self) -> bool:
        """Whether slots have tags: those of columns."""
        return self.ids is not None

    @property
    def planes(self) -> int:
        """Bits of a slot."""
        return n_planes(self.domain, tagged=self.tagged)

    @property
    def shape(self) -> tuple[int, int]:
        """Planes and slots of the shared bits."""
        return self.planes, self.rows

    @property
    def packed(self) -> tuple[int, int]:
        """Shape of the correction, in words of 64 bits."""
        return self.planes, words(self.rows)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it: equal at two servers if and only if they hold the same upload."""
        return hashlib.sha256(b"hedgerow/manifest/v1" + self.to_json().encode()).hexdigest()

    def payload_bytes(self, server: int) -> int:
        """Return the bytes of a server's part."""
        words_ = 8 * self.packed[0] * self.packed[1] + SALT_BYTES if server else 0
        return len(_HELD[server]) * KEY_BYTES + words_

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        fields = self.model_dump(mode="json", exclude={"domain", "ids"})
        # Manifests of rows, and their digests, are what they were before there were ids.
        ids = {"ids": self.ids} if self.tagged else {}
        return fields | ids | {"domain": self.domain.to_dict()}

    def summary(self) -> dict[str, Any]:
        """Return the few figures that lists show."""
        return {
            "id": self.id,
            "population": self.population,
            "owner": self.owner,
            "slots": self.rows,
            "columns": len(self.domain.attributes),
            "target": self.has_target,
            "planes": self.planes,
            "digest": self.digest,
        }

    def to_json(self) -> str:
        """Write it, always in the same way."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> UploadManifest:
        """Read what `to_json` wrote, also from somebody hostile; H887 for anything else."""
        if len(text) > MAX_MANIFEST_BYTES:
            raise Code.BAD_UPLOAD.error(found=f"a manifest of {len(text)} bytes")
        return cls.model_validate(jsonfile.loads(text, Code.BAD_UPLOAD))


def format_version(domain: Domain, *, tagged: bool = False) -> Literal[1, 2, 3]:
    """Return the version of an upload: 3 with tags; of rows 2 where the target is a number."""
    if tagged:
        return 3
    return 2 if domain.target is not None and domain.target.bounds is not None else 1


def seeds_held(server: int) -> tuple[int, ...]:
    """Return which seeds a server is sent, in order."""
    return _HELD[server]


def seed_digest(upload: str, number: int, seed: bytes) -> str:
    """Hash a seed; it is random, so the hash tells nothing about it."""
    return hashlib.sha256(_SEED + f"/{upload}/{number}/".encode() + seed).hexdigest()


def correction_digest(upload: str, salt: bytes, correction: NDArray[np.uint64]) -> str:
    """Hash a correction behind its salt."""
    total = hashlib.sha256(_CORRECTION + f"/{upload}/".encode() + salt)
    total.update(np.ascontiguousarray(correction, dtype="<u8").data)
    return total.hexdigest()
