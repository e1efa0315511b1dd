"""What members in lock-step compare at the beginning and the end of a run: small, public arrays.

They are the three servers, or peers: all of a network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from hedgerow.errors import Code
from hedgerow.net.network import Array, Network

DIGEST_BYTES = 32
_MOST_STAGES = 1 << 20


def exchange_all(network: Network, step: str, own: Array) -> dict[int, Array]:
    """Tell the others an array and hear theirs, of the same shape, by number: one round.

    Where nobody lives, in a rehearsal, all say the same.
    """
    everybody = range(network.n)
    return network.exchange_all(step, dict.fromkeys(network.local or everybody, own), everybody)


def agree_on_stages(network: Network, tags: Sequence[bytes]) -> int:
    """Return how many stages, from the first, all members hold with the same tags.

    Reveals: to the members, how far each of them has come.
    Cost: 2 rounds; 1 where nobody has a stage.
    """
    counts = exchange_all(network, "stages", np.array([len(tags)], dtype=np.uint64))
    numbers = [int(count[0]) for count in counts.values()]
    most, fewest = max(numbers), min(numbers)
    if most > _MOST_STAGES:
        raise Code.BAD_FRAME.error(found=f"a member with {most} stages")
    if most == 0:
        return 0
    own = np.zeros((most, DIGEST_BYTES), dtype=np.uint8)
    for at, tag in enumerate(tags):
        own[at] = np.frombuffer(tag, dtype=np.uint8)
    every = np.stack(list(exchange_all(network, "stages", own).values()))
    differ = np.flatnonzero((every[:, :fewest] != own[:fewest]).any(axis=(0, 2)))
    return int(differ[0]) if differ.size else fewest


def confirm(network: Network, tag: bytes) -> None:
    """Return when the other members have kept the stage of this tag: one round."""
    own = np.frombuffer(tag, dtype=np.uint8)
    for member, other in exchange_all(network, "kept", own).items():
        if (other != own).any():
            raise Code.SESSION_MISMATCH.error(
                expected="the stage that this member has kept",
                found=f"another one at member {member}",
            )


def compare_texts(network: Network, what: str, text: str, code: Code) -> None:
    """Refuse, with `code`, to go on where members have different texts, which are public.

    Cost: 1 round.
    """
    own = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint8)
    for member, other in exchange_all(network, "compare", own).items():
        if (other != own).any():
            raise code.error(
                expected=f"the same {what} at all",
                found=f"at member {member} one of hash {other.tobytes().hex()[:12]}, "
                f"here {own.tobytes().hex()[:12]}",
            )


def compare_numbers(network: Network, what: str, number: int, code: Code) -> None:
    """Refuse, with `code`, to go on where members say different numbers: one round."""
    for member, other in exchange_all(network, what, np.array([number], np.uint64)).items():
        if int(other[0]) != number:
            raise code.error(
                expected=f"{what} {number} at all", found=f"{int(other[0])} at member {member}"
            )


def compare_uploads(network: Network, digests: Mapping[str, str]) -> None:
    """Refuse, H895, to go on where servers hold different uploads under one name.

    Every server has compared its parts with a manifest before; equal manifests mean parts of one
    table. `digests` has the SHA-256 of each by upload, in the order of the job.

    Reveals: nothing; manifests are public.
    Cost: 1 round.
    """
    names = list(digests)
    own = np.frombuffer(bytes.fromhex("".join(digests.values())), dtype=np.uint8)
    own = own.reshape(len(names), DIGEST_BYTES)
    for server, theirs in exchange_all(network, "compare uploads", own).items():
        differ = (theirs != own).any(axis=1)
        if differ.any():
            raise Code.UPLOADS_DIFFER.error(
                found=f"upload {names[int(differ.argmax())]}, of which server {server} holds "
                "another one than this server"
            )
