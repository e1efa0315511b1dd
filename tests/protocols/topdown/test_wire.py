from dataclasses import replace

import numpy as np
import pytest

from hedgerow.crypto.sealed import SealingKey, seal
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.secure_splits import SecureSplits
from hedgerow.protocols.topdown.wire import (
    SERVER_NAMES,
    Ask,
    context_of,
    open_part,
    question_of,
    seal_parts,
    sealed_sizes,
)
from hedgerow.secure.replicated.outside import join_parts
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.protocols.topdown.secure_counts import KEYS, PUBLIC_KEYS, plan_of

ASK = Ask("f" * 64, 4, "nodes", ((0, 3), (2, 1)), (3, 4))
SPLITS = [(0, 3), (2, 1)]
COUNTS = np.arange(2 * 3 * 10).reshape(2, 3, 10)


def sealed(ring: Ring = Z32, owner: str = "amsterdam", seed: int = 0) -> dict[str, np.ndarray]:
    source = NoiseSource.insecure_seeded(seed)
    return seal_parts(
        COUNTS, ring, ASK, SPLITS, owner, PUBLIC_KEYS, lambda n: source.bytes(n).tobytes()
    )


def opened(parts: dict[str, np.ndarray], at: int, /, ask: Ask = ASK, **other: object):
    known = {
        "key": KEYS[at],
        "splits": SPLITS,
        "owner": "amsterdam",
        "server": at,
        "ring": Z32,
    } | other
    return open_part(parts[SERVER_NAMES[at]], ask=ask, shape=COUNTS.shape, **known)


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
def test_the_three_parts_are_the_counts(ring: Ring) -> None:
    parts = sealed(ring)
    dealt = [opened(parts, server, ring=ring) for server in range(3)]
    np.testing.assert_array_equal(join_parts(dealt, COUNTS.shape, ring.dtype), COUNTS)
    assert {name: part.size for name, part in parts.items()} == sealed_sizes(COUNTS.shape, ring)


def test_the_servers_hear_the_same_question_one_round_later() -> None:
    passed_on = replace(ASK, round=5, phase="servers", arrays={"x": np.zeros(3, np.uint8)})
    assert question_of(passed_on, SPLITS) == question_of(ASK, SPLITS)
    assert opened(sealed(), 1, passed_on).correction is not None
    leaves = replace(ASK, phase="leaves")
    assert question_of(replace(passed_on, phase="servers, leaves"), SPLITS) == question_of(
        leaves, SPLITS
    )
    assert question_of(leaves, SPLITS) != question_of(ASK, SPLITS)


OTHER = {
    "server": {"server": 2},
    "owner": {"owner": "berlin"},
    "plan": {"ask": replace(ASK, plan="e" * 64)},
    "round": {"ask": replace(ASK, round=6)},
    "splits": {"splits": [(0, 3), (2, 2)]},
    "splits before": {"splits": [(0, 5), *SPLITS]},
    "nodes": {"ask": replace(ASK, nodes=(3, 5))},
    "phase": {"ask": replace(ASK, phase="leaves")},
    "key": {"key": SealingKey()},
}


@pytest.mark.parametrize("what", list(OTHER))
def test_a_part_opens_nowhere_else(what: str) -> None:
    known = {"ask": ASK} | OTHER[what]
    with pytest.raises(HedgerowError) as error:
        opened(sealed(), 1, **known)
    assert error.value.code is Code.SEALED_REFUSED


def test_a_part_that_was_changed_or_is_of_another_length_is_refused() -> None:
    parts = sealed()
    part = parts["server 2"].copy()
    part[50] ^= 1
    short = seal(bytes(20), PUBLIC_KEYS[0], context_of(ASK, SPLITS, "amsterdam", 0))
    for server, bad in ((2, part), (0, np.frombuffer(short, dtype=np.uint8))):
        with pytest.raises(HedgerowError) as error:
            opened({SERVER_NAMES[server]: bad}, server)
        assert error.value.code is Code.SEALED_REFUSED


def test_one_server_alone_sees_uniform_numbers() -> None:
    """The correction of the same counts, under fresh seeds, takes all values alike."""
    seen = [opened(sealed(Z16, seed=seed), 1, ring=Z16).correction for seed in range(150)]
    top = np.concatenate([one.reshape(-1) for one in seen]) >> 12
    counts = np.bincount(top, minlength=16)
    expected = counts.sum() / 16
    assert ((counts - expected) ** 2 / expected).sum() < 45  # 15 degrees of freedom, p about 1e-4


def test_shapes_and_rings_follow_from_the_plan() -> None:
    splits = SecureSplits(plan_of())
    assert splits.shared_array("nodes", 7) == ((7, 3, 10), splits.ring)
    assert splits.shared_array("leaves", 7) == ((7, 3), splits.leaf_ring)
