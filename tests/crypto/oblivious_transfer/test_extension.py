"""Extension: the textbook's rows, a million of them; cheats are caught, addresses used once."""

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import (
    BEGIN_RECEIVER,
    BEGIN_SENDER,
    PLANT,
    Receiver,
    Sender,
    message_bytes,
)
from hedgerow.crypto.oblivious_transfer.extension import (
    CHECK_ROWS,
    KEY_BYTES,
    LEAVES,
    TREES,
    K,
    _checks,
)
from hedgerow.crypto.prg import Prg
from hedgerow.errors import Code, HedgerowError, PrivacyError
from tests.crypto.oblivious_transfer.plain import aes, extend, number, numbers, seeded, set_up

Pair = tuple[Sender, Receiver]
RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def made() -> Pair:
    """Both sides of one set-up; tests bind them to sessions of their own."""
    return set_up()


@pytest.fixture
def pair(made: Pair, request: pytest.FixtureRequest) -> Pair:
    for side in made:
        side.bind(request.node.name.encode())
    return made


def bits(n: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 2, n, dtype=np.uint8)


def refused(code: Code, call: Callable[[], object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code


def test_set_up_gives_all_leaves_but_those_of_delta(made: Pair) -> None:
    sender, receiver = made
    delta = number(sender._delta)
    for tree in range(TREES):
        hole = delta >> K * tree & (LEAVES - 1)
        theirs, mine = receiver._seeds[tree], sender._seeds[tree]
        assert mine[0] is None
        assert [mine[y ^ hole] for y in range(LEAVES) if y != hole] == [
            seed for y, seed in enumerate(theirs) if y != hole
        ]
    assert len({seed for seeds in receiver._seeds for seed in seeds}) == TREES * LEAVES


def test_sizes_follow_from_public_numbers() -> None:
    sender, receiver = Sender(b"s", (0, 1)), Receiver(b"s", (0, 1))
    first, points = sender.begin(), receiver.begin()
    planted = receiver.plant(first)
    assert (first.size, points.size, planted.size) == (BEGIN_SENDER, BEGIN_RECEIVER, PLANT)
    sender.finish(points, planted)
    for counter, n in enumerate((0, 1, 127, 128, 129, 1000)):
        message, received = receiver.extend(np.zeros(n, dtype=np.uint8), counter)
        assert message.size == message_bytes(n)
        assert 560 <= message.size - 4 * n <= 1068
        assert len(sender.extend(message, n, counter)) == len(received) == n


def test_message_and_rows_are_the_textbooks(pair: Pair) -> None:
    sender, receiver = pair
    n, counter, choices = 150, 77, bits(150)
    size = 256 + CHECK_ROWS
    drawn = copy.copy(receiver._entropy)
    receiver._entropy = lambda k: bytes(range(k))
    message, received = receiver.extend(choices, counter)
    receiver._entropy = drawn
    u = np.zeros(size, dtype=np.uint8)
    u[:n] = choices
    u[256:] = np.unpackbits(np.arange(CHECK_ROWS // 8, dtype=np.uint8), bitorder="little")
    delta = number(sender._delta)
    corrections, v, q = [], np.zeros(size, dtype=object), np.zeros(size, dtype=object)
    for tree in range(TREES):
        streams = []
        for seed in receiver._seeds[tree]:
            key = receiver._context.hash("stream", KEY_BYTES, seed)
            blocks = (aes(key, counter << 64 | i) for i in range(size // 128))
            streams.append([b >> j & 1 for b in blocks for j in range(128)])
        r = np.array(streams)
        corrections.append((r.sum(axis=0) + u) % 2)
        hole = delta >> K * tree & (LEAVES - 1)
        for row in range(size):
            mine = theirs = 0
            for y in range(LEAVES):
                mine ^= y * int(r[y, row])
                theirs ^= (y ^ hole) * int(r[y, row]) if y != hole else 0
            v[row] |= mine << K * tree
            q[row] |= (theirs ^ hole * int(corrections[-1][row])) << K * tree
    body = np.packbits(np.array(corrections, dtype=np.uint8), axis=1, bitorder="little").ravel()
    np.testing.assert_array_equal(message[: body.size], body)
    sent = sender.extend(message, n, counter)
    assert numbers(received.take()) == v[:n].tolist()
    assert numbers(sent.take()) == q[:n].tolist()
    assert [a ^ b for a, b in zip(q, v, strict=True)] == [int(bit) * delta for bit in u]

    place = counter.to_bytes(8, "little") + n.to_bytes(8, "little")
    challenge = receiver._context.hash("challenge", 16, place, body.data)
    signs = Prg(challenge).fill("rows 0", (256, 16), np.uint8)
    matrix = np.vstack(
        [np.unpackbits(signs, axis=1, bitorder="little"), np.eye(CHECK_ROWS, dtype=np.uint8)]
    ).T.astype(np.int64)
    total = np.packbits((matrix @ u % 2).astype(np.uint8), bitorder="little")
    np.testing.assert_array_equal(message[body.size : body.size + 16], total)
    columns = np.array([[int(row) >> i & 1 for i in range(128)] for row in v])
    checks = np.packbits((matrix @ columns % 2).astype(np.uint8), axis=1, bitorder="little")
    digest = receiver._context.hash("rows", 32, place[:8], checks.tobytes())
    assert message[body.size + 16 :].tobytes() == digest


def test_a_million_rows_differ_by_delta_where_the_choice_is_one(pair: Pair) -> None:
    choices = bits(1_000_003)
    sent, received = extend(pair, choices, 1)
    q, v = sent.take(), received.take()
    np.testing.assert_array_equal(q ^ v, choices[:, None] * pair[0]._delta)
    assert len(np.unique(v[:, 0])) == choices.size


@pytest.mark.parametrize("choice", [0, 1])
def test_what_is_sent_and_made_looks_uniform(pair: Pair, choice: int, chi_square) -> None:
    sender, receiver = pair
    n = 1 << 15
    message, received = receiver.extend(np.full(n, choice), 5)
    sent = sender.extend(message, n, 5)
    for data in (message, sent.take().view(np.uint8), received.take().view(np.uint8)):
        counts = np.bincount(data.ravel(), minlength=256)
        assert chi_square(counts, np.full(256, 1 / 256)) > 1e-4
    # Sums of choices in the check are masked: other ones with every batch.
    again = [receiver.extend(np.full(n, choice), counter)[0][-48:-32] for counter in range(6, 70)]
    ones = np.unpackbits(np.array(again)).mean()
    assert 0.47 < ones < 0.53


def test_rows_follow_from_counters_and_not_from_their_order() -> None:
    one, other = (set_up("order") for _ in range(2))
    choices = bits(300)
    forth = {counter: extend(one, choices, counter) for counter in (3, 1 << 63, 0)}
    back = {counter: extend(other, choices[:200], counter) for counter in (0, 3, 1 << 63)}
    rows = {}
    for counter, (sent, received) in forth.items():
        rows[counter] = sent.take()
        assert (rows[counter][:200] == back[counter][0].take()).all()
        assert (received.take()[:200] == back[counter][1].take()).all()
    assert len({number(row) for made in rows.values() for row in made}) == 900


def test_a_counter_is_used_once(pair: Pair) -> None:
    sender, receiver = pair
    message, _ = receiver.extend(bits(9), 4)
    sender.extend(message, 9, 4)
    refused(Code.TRANSFER_USED_TWICE, lambda: receiver.extend(bits(2), 4))
    refused(Code.TRANSFER_USED_TWICE, lambda: sender.extend(message, 9, 4))
    extend(pair, bits(9), 5)
    for counter in (-1, 1 << 64):
        with pytest.raises(ValueError, match="counter"):
            receiver.extend(bits(2), counter)


def test_a_new_session_has_new_rows_and_a_session_comes_once() -> None:
    pair = set_up("sessions", b"first")
    choices = bits(500)
    before = extend(pair, choices, 1)
    old = copy.deepcopy(pair[1]._seeds)
    for side in pair:
        side.bind(b"second")
    after = extend(pair, choices, 1)
    rows = [rows.take() for rows in (*before, *after)]
    np.testing.assert_array_equal(rows[0] ^ rows[1], rows[2] ^ rows[3])
    assert not (rows[0][:, 0] == rows[2][:, 0]).any()
    kept = {seed for seeds in pair[1]._seeds for seed in seeds}
    assert kept.isdisjoint(seed for seeds in old for seed in seeds)
    for session in (b"first", b"second"):
        for side in pair:
            refused(Code.TRANSFER_SESSION_USED, lambda s=side, name=session: s.bind(name))
    extend(pair, choices, 2)


def ended(pair: Pair, message: NDArray[np.uint8], n: int, counter: int) -> None:
    """The message is refused, and the sender with it."""
    sender, _ = pair
    refused(Code.TRANSFER_CHECK_FAILED, lambda: sender.extend(message, n, counter))
    refused(Code.TRANSFER_NOT_READY, lambda: sender.extend(message, n, counter + 1))
    refused(Code.TRANSFER_NOT_READY, lambda: sender.bind(b"after"))
    assert not sender._streams


def test_a_message_of_another_batch_is_refused() -> None:
    pair = set_up("replay")
    message, _ = pair[1].extend(bits(64), 1)
    pair[0].extend(message, 64, 1)
    ended(pair, message, 64, 2)


def test_a_message_of_another_session_is_refused() -> None:
    pair = set_up("replay")
    message, _ = pair[1].extend(bits(64), 1)
    pair[0].bind(b"second")
    ended(pair, message, 64, 1)


def trial(sender: Sender, message: NDArray[np.uint8], n: int, counter: int) -> bool:
    """Tell whether a message passes; the sender goes on, which only tests can make it do."""
    kept = sender._seeds, list(sender._streams)
    try:
        sender.extend(message, n, counter)
    except PrivacyError as error:
        sender._seeds, sender._streams = kept
        return error.code is not Code.TRANSFER_CHECK_FAILED
    return True


def test_every_change_on_the_way_is_found(pair: Pair) -> None:
    sender, receiver = pair
    n, size = 100, message_bytes(100)
    ends = [0, size - 49, size - 48, size - 33, size - 32, size - 1]
    for counter, at in enumerate([*ends, *RNG.integers(0, size, 100).tolist()]):
        message, _ = receiver.extend(bits(n), counter)
        message[at] ^= 1 << counter % 8
        assert not trial(sender, message, n, counter)


def cheat(
    receiver: Receiver, n: int, counter: int, guesses: dict[int, int], row: int
) -> NDArray[np.uint8]:
    """Flip one choice in the corrections of some trees, betting that Delta_t is the guess.

    All the rest is computed as the protocol says, on the falsified corrections.
    """

    seal = receiver._sealed

    def falsified(corrections, u, rows, n, counter):
        for tree, guess in guesses.items():
            corrections[tree, row // 64] ^= np.uint64(1 << row % 64)
            rows[row, K * tree // 64] ^= np.uint64(guess << K * tree % 64)
        return seal(corrections, u, rows, n, counter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiver, "_sealed", falsified)
        return receiver.extend(bits(n), counter)[0]


def test_a_falsified_column_passes_only_by_guessing_four_bits_of_delta(pair: Pair) -> None:
    """All 512 bets on one tree: 15 of 16 are caught, whatever row is falsified."""
    sender, receiver = pair
    delta, passed = number(sender._delta), []
    for counter in range(TREES * LEAVES):
        tree, guess = divmod(counter, LEAVES)
        message = cheat(receiver, 130, counter, {tree: guess}, int(RNG.integers(0, 256 + 128)))
        if trial(sender, message, 130, counter):
            passed.append((tree, guess))
    assert passed == [(tree, delta >> K * tree & (LEAVES - 1)) for tree in range(TREES)]


def test_two_falsified_columns_need_two_guesses(pair: Pair) -> None:
    sender, receiver = pair
    delta = number(sender._delta)
    right = [delta >> K * tree & (LEAVES - 1) for tree in (4, 20)]
    for counter in range(LEAVES):
        bet = {4: right[0], 20: counter}
        message = cheat(receiver, 130, counter, bet, 99)
        assert trial(sender, message, 130, counter) == (counter == right[1])


def test_detection_of_a_bare_flip_over_several_set_ups() -> None:
    """Caught unless Delta_t is 0: 15/16 of the trees, within 4 standard deviations."""
    passed = 0
    for number_of in range(4):
        sender, receiver = set_up(f"flip/{number_of}")
        for tree in range(TREES):
            passed += trial(sender, cheat(receiver, 1, tree, {tree: 0}, 0), 1, tree)
    assert abs(passed - 128 / 16) < 4 * (128 / 16 * 15 / 16) ** 0.5


def test_falsified_trees_of_the_set_up_show_one_bit_or_are_refused() -> None:
    """A changed sum is noticed by who chose that side; a changed check or digest by everybody."""
    n_sums = TREES * (K - 1) * 2
    sender = Sender(b"s", (0, 1), seeded("planted/sender"))
    receiver = Receiver(b"s", (0, 1), seeded("planted/receiver"))
    points, planted = receiver.begin(), receiver.plant(sender.begin())
    base = sender._base
    for which in [0, 1, 100, 101, n_sums - 2, n_sums - 1]:
        tree, level, side = which // 6, which // 2 % 3 + 1, which % 2
        changed = planted.copy()
        changed[which * KEY_BYTES + 3] ^= 16
        sender._base = base
        if side == sender._away[tree][level]:
            refused(Code.TRANSFER_CHECK_FAILED, lambda m=changed: sender.finish(points, m))
        else:
            sender.finish(points, changed)
    for at in (n_sums * KEY_BYTES, PLANT - 33, PLANT - 32, PLANT - 1):
        changed = planted.copy()
        changed[at] ^= 1
        sender._base, sender._seeds = base, None
        refused(Code.TRANSFER_CHECK_FAILED, lambda m=changed: sender.finish(points, m))
        refused(Code.TRANSFER_NOT_READY, lambda: sender.extend(np.zeros(1072, np.uint8), 1, 0))


def test_each_falsified_sum_of_the_set_up_is_a_bet_on_one_bit() -> None:
    """Of all bets on b bits, in one tree or in several, one passes: that on Delta."""
    sender = Sender(b"s", (0, 1), seeded("bets/sender"))
    receiver = Receiver(b"s", (0, 1), seeded("bets/receiver"))
    points, planted = receiver.begin(), receiver.plant(sender.begin())
    base = sender._base
    for places in ([(0, 1)], [(0, 1), (0, 2)], [(3, 3), (17, 1), (31, 2)]):
        passed = []
        for sides in product((0, 1), repeat=len(places)):
            changed = planted.copy()
            for (tree, level), side in zip(places, sides, strict=True):
                changed[(tree * (K - 1) * 2 + (level - 1) * 2 + side) * KEY_BYTES] ^= 1
            sender._base = base
            with suppress(PrivacyError):
                sender.finish(points, changed)
                passed.append(sides)
        # The sums that the sender does not use are those of the bits of Delta, from the top.
        assert passed == [tuple(sender._holes[t] >> (K - 1 - level) & 1 for t, level in places)]


def test_the_hash_of_the_check_is_linear_and_finds_every_difference() -> None:
    rows = RNG.integers(0, 1 << 64, (2, 128 * 200, 2), dtype=np.uint64)
    u = RNG.integers(0, 1 << 64, (2, 2 * 200), dtype=np.uint64)
    one, other = (_checks(Prg(bytes(16)), rows[i], u[i]) for i in (0, 1))
    both = _checks(Prg(bytes(16)), rows[0] ^ rows[1], u[0] ^ u[1])
    for a, b, c in zip(one, other, both, strict=True):
        np.testing.assert_array_equal(a ^ b, c)
    for at in (0, 8_191, 8_192, 128 * 199 - 1, 128 * 199, 128 * 200 - 1):
        changed, choices = rows[0].copy(), u[0].copy()
        changed[at, at % 2] ^= np.uint64(1 << at % 64)
        choices[at // 64] ^= np.uint64(1 << at % 64)
        for found, before in zip(_checks(Prg(bytes(16)), changed, choices), one, strict=True):
            assert (found != before).any()


def test_messages_of_another_size(pair: Pair) -> None:
    sender, receiver = pair
    message, _ = receiver.extend(bits(200), 0)
    for bad in (message[:-1], message.astype(np.uint16), message.reshape(1, -1)):
        refused(Code.BAD_TRANSFER_MESSAGE, lambda m=bad: sender.extend(m, 200, 0))
    refused(Code.BAD_TRANSFER_MESSAGE, lambda: sender.extend(message, 600, 0))
    # Nothing was used up by what was refused.
    assert len(sender.extend(message, 200, 0)) == 200
    for choices in (np.zeros((2, 2), np.uint8), np.array([0, 2]), np.array([0.0, 1.0])):
        refused(Code.BAD_TRANSFER_MESSAGE, lambda c=choices: receiver.extend(c, 1))


def test_steps_out_of_order() -> None:
    sender, receiver = Sender(b"s", (0, 1)), Receiver(b"s", (0, 1))
    refused(Code.TRANSFER_NOT_READY, lambda: receiver.extend(bits(3), 0))
    refused(Code.TRANSFER_NOT_READY, lambda: sender.bind(b"t"))
    refused(Code.BAD_TRANSFER_MESSAGE, lambda: sender.finish(receiver.begin(), np.zeros(9, "u1")))
    points, first = receiver.begin(), sender.begin()
    planted = receiver.plant(first)
    for call in (receiver.begin, lambda: receiver.plant(first)):
        refused(Code.TRANSFER_NOT_READY, call)
    sender.finish(points, planted)
    for call in (sender.begin, lambda: sender.finish(points, planted)):
        refused(Code.TRANSFER_NOT_READY, call)


def test_sides_of_other_sessions_or_pairs_do_not_meet() -> None:
    for session, ends in ((b"t", (0, 1)), (b"s", (1, 0))):
        sender = Sender(b"s", (0, 1), seeded("apart/sender"))
        receiver = Receiver(session, ends, seeded("apart/receiver"))
        points, planted = receiver.begin(), receiver.plant(sender.begin())
        refused(Code.TRANSFER_CHECK_FAILED, partial(sender.finish, points, planted))


def test_keys_are_neither_printed_nor_copied(pair: Pair) -> None:
    for each in (*pair, *extend(pair, bits(4), 0)):
        assert len(repr(each)) < 60
        with pytest.raises(TypeError):
            pickle.dumps(each)
        with pytest.raises(TypeError):
            copy.copy(each)
