"""Sizes of intersections; the ring: encryptions, fresh keys and shuffles, messages out of turn."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.crypto.commutative import Curve25519Cipher
from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.cardinality import RingCardinality, SiteMeter, joint_sizes
from hedgerow.protocols.vertical_id3.messages import NODE, BringSet, PassSet, from_bytes, to_bytes
from hedgerow.protocols.vertical_id3.tasks import Desk


def elements(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, dtype="<u8").reshape(-1, 1).view(np.uint8)


def test_all_choices_of_groups_are_counted() -> None:
    rng = np.random.default_rng(0)
    sets = []
    for n_groups in (3, 1, 2):
        label = rng.integers(-1, n_groups, 200)
        sets.append([np.flatnonzero(label == g).tolist() for g in range(n_groups)])
    found = joint_sizes([[elements(group) for group in groups] for groups in sets], (0, 1, 2))
    assert found.shape == (3, 1, 2)
    for i, first in enumerate(sets[0]):
        for j, second in enumerate(sets[1]):
            for k, third in enumerate(sets[2]):
                assert found[i, j, k] == len(set(first) & set(second) & set(third))
    assert found.sum() > 0


def test_empty_sets_intersect_in_nothing() -> None:
    found = joint_sizes([[elements([]), elements([1])], [elements([])]], (0, 1))
    assert found.tolist() == [[0], [0]]
    assert joint_sizes([[elements([])], [elements([])]], (0, 1)).tolist() == [[0]]


@pytest.mark.parametrize("groups", [[[1, 1], [2]], [[1], [1]]])
def test_an_element_twice_names_its_site(groups: list[list[int]]) -> None:
    sets = [[elements([1, 2])], [elements(group) for group in groups]]
    with pytest.raises(HedgerowError, match="site 4") as caught:
        joint_sizes(sets, (0, 4))
    assert caught.value.code is Code.SITE_CONTRADICTS


N = 30


class Ring:
    """Sites that do nothing but count."""

    def __init__(self, groups: list[list[np.ndarray]]) -> None:
        self.groups = groups
        cipher = Curve25519Cipher()
        points = cipher.hash([str(i).encode() for i in range(N)], "test")
        self.sites, self.desks, self.learned = [], [], []
        self.wire: list[tuple[int, int, object]] = []
        for i in range(len(groups)):
            names: list[tuple[str, tuple[int, ...]]] = []
            site = RingCardinality(
                i,
                cipher,
                lambda purpose, i=i: self.groups[i],
                learn=lambda name, shape, names=names: names.append((name, shape)),
                check=lambda owner, purpose, sizes: None,
                meter=SiteMeter(),
            )
            site.elements = points
            self.learned.append(names)
            self.sites.append(site)
            self.desks.append(Desk(i, len(groups), site.handle))

    def count(self, counter: int, call: int = 10) -> np.ndarray:
        results: list[np.ndarray] = []
        ring = tuple(range(len(self.groups)))
        task = self.sites[counter].count(call, ring, self.groups[counter])
        queue = deque((counter, out) for out in self.desks[counter].start(task, results.append))
        while queue:
            sender, out = queue.popleft()
            self.wire.append((sender, out.to, from_bytes(out.data, "x")))
            queue.extend((out.to, more) for more in self.desks[out.to].receive(sender, out.data))
        return results[0]


def random_groups(sizes: list[int], seed: int = 0) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    found = []
    for n_groups in sizes:
        label = rng.integers(-1 if n_groups > 1 else 0, n_groups + 1, N)
        found.append([np.flatnonzero(label == g) for g in range(n_groups)])
    return found


def exact(groups: list[list[np.ndarray]]) -> np.ndarray:
    found = np.zeros([len(own) for own in groups], dtype=np.int64)
    for at in np.ndindex(*found.shape):
        sets = [set(groups[i][g].tolist()) for i, g in enumerate(at)]
        found[at] = len(set.intersection(*sets))
    return found


@pytest.mark.parametrize("sizes", [[1, 1], [3, 2], [1, 3, 2], [1, 1, 4, 1, 2]])
def test_counts_are_those_of_the_sets(sizes: list[int]) -> None:
    groups = random_groups(sizes)
    expected = exact(groups)
    for counter in range(len(sizes)):
        ring = Ring(groups)
        found = ring.count(counter)
        # Groups of the others come in an order of their own: sort along their axes.
        assert found.shape == expected.shape
        own = [np.moveaxis(array, counter, 0) for array in (found, expected)]
        flat = [np.sort(array.reshape(sizes[counter], -1), axis=1) for array in own]
        assert np.array_equal(*flat)
        assert ring.sites[counter]._meter.intersections == expected.size
        total = sum(len(group) for part in groups for group in part)
        encryptions = [site._meter.encryptions for site in ring.sites]
        # Every site encrypts every set once: m * sum n_j in all.
        assert encryptions == [total] * len(sizes)
        passed = [message for _, _, message in ring.wire if isinstance(message, PassSet)]
        # m sets make m hops each, less those that end or begin at the counting site itself.
        assert len(passed) == len(sizes) ** 2 - 1


def test_keys_are_forgotten_and_fresh() -> None:
    ring = Ring(random_groups([2, 1, 2]))
    for call in (10, 11):
        ring.count(0, call)
    assert all(not site._calls for site in ring.sites)
    by_call: dict[int, set[bytes]] = {10: set(), 11: set()}
    plain = {row.tobytes() for row in ring.sites[0].elements}
    for _, _, message in ring.wire:
        if isinstance(message, PassSet):
            for blob in message.groups:
                rows = {blob[i : i + 32] for i in range(0, len(blob), 32)}
                assert not rows & plain
                by_call[message.call] |= rows
    assert by_call[10]
    assert not by_call[10] & by_call[11]


def test_a_hop_encrypts_and_shuffles() -> None:
    ring = Ring([[np.arange(N)] for _ in range(3)])
    site = ring.sites[0]
    sent = site.cipher.encrypt(site.cipher.new_key(), site.elements)
    ((to, data),) = ring.desks[0].receive(2, to_bytes(replace(PASS, groups=(sent.tobytes(),))))
    passed = from_bytes(data, "x")
    assert isinstance(passed, PassSet)
    assert (to, passed.owner, passed.layers) == (1, 2, 2)
    found = np.frombuffer(passed.groups[0], np.uint8).reshape(-1, 32)
    done = site.cipher.encrypt(site._calls[10].key, sent)
    assert {row.tobytes() for row in found} == {row.tobytes() for row in done}
    # A random order of thirty keeps one place on average, and 15 with a probability below 1e-12.
    assert (found == done).all(axis=1).sum() < 15


def test_group_order_is_drawn_anew() -> None:
    groups = [[np.arange(N)], [np.arange(5), np.arange(5, 11), np.arange(11, N)]]
    ring = Ring(groups)
    seen = {tuple(ring.count(0, call).ravel().tolist()) for call in range(10, 40)}
    # Sizes 5, 6 and 19 in different orders: 30 draws of one order have probability 6^-29.
    assert len(seen) > 1
    assert {tuple(sorted(order)) for order in seen} == {(5, 6, 19)}


def test_what_is_learned_is_named() -> None:
    ring = Ring(random_groups([3, 1, 2]))
    ring.count(0)
    assert ("sub-intersections of sets in 3 x 1 x 2 groups", (4, 2, 3)) in ring.learned[0]
    assert ("sizes of encrypted sets in 3 groups", (3,)) in ring.learned[1]
    assert all("sub-intersections" not in name for i in (1, 2) for name, _ in ring.learned[i])


def test_one_site_counts_alone() -> None:
    ring = Ring(random_groups([3, 1]))
    task = ring.sites[0].count(10, (0,), ring.groups[0])
    results: list[np.ndarray] = []
    assert ring.desks[0].start(task, results.append) == []
    assert results[0].tolist() == [len(group) for group in ring.groups[0]]
    assert ring.sites[0]._meter.encryptions == 0


PASS = PassSet(10, NODE, 1, (0, 1, 2), 2, 1, (b"",))


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        (1, PASS),
        (2, replace(PASS, ring=(0, 2))),
        (2, replace(PASS, ring=(0, 0, 1, 2))),
        (2, replace(PASS, layers=0)),
        (2, replace(PASS, layers=4)),
        (2, replace(PASS, purpose=9)),
        (1, replace(PASS, layers=3)),
        (2, BringSet(10, NODE, 1, (0, 1, 2))),
    ],
)
def test_messages_out_of_turn_are_refused(sender: int, message: PassSet) -> None:
    ring = Ring(random_groups([1, 1, 1]))
    with pytest.raises(HedgerowError, match=f"from site {sender}") as caught:
        ring.desks[0].receive(sender, to_bytes(message))
    assert caught.value.code is Code.BAD_SITE_MESSAGE


def test_a_set_is_encrypted_once_only() -> None:
    ring = Ring(random_groups([1, 1, 1]))
    ring.desks[0].receive(2, to_bytes(PASS))
    with pytest.raises(HedgerowError, match="a second time"):
        ring.desks[0].receive(2, to_bytes(PASS))
    done = Ring(random_groups([1, 1, 1]))
    done.count(1)
    with pytest.raises(HedgerowError, match="a second time"):
        done.desks[0].receive(2, to_bytes(PASS))


def test_bad_points_are_refused_at_the_first_hop() -> None:
    ring = Ring(random_groups([1, 1, 1]))
    with pytest.raises(HedgerowError, match="small order from site 2") as caught:
        ring.desks[0].receive(2, to_bytes(replace(PASS, groups=(bytes(32),))))
    assert caught.value.code is Code.BAD_ELEMENT
