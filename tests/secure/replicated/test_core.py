"""Keys, steps and masks."""

from collections.abc import Callable

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated.core import Core
from tests.secure.replicated.wires import SEED, Recorder


def test_keys_go_to_the_second_holder_in_one_round() -> None:
    network = Recorder()
    core = Core(network, "a")
    assert core.private
    assert [step for step, _ in network.plans] == ["keys"]
    assert {(r.source, r.destination, r.shape) for r in network.plans[0][1]} == {
        (0, 2, (16,)),
        (1, 0, (16,)),
        (2, 1, (16,)),
    }
    fresh = Core(Simulator(), "a")
    assert not np.array_equal(
        core.draw(0, 0, "x", (4,), np.uint64), fresh.draw(0, 0, "x", (4,), np.uint64)
    )


def test_a_seed_needs_no_round() -> None:
    network = Recorder()
    assert not Core(network, "a", SEED).private
    assert network.plans == []


def test_masks_differ_by_session_step_key_and_tag() -> None:
    masks = []
    for session in ("a", "b"):
        core = Core(Simulator(), session, SEED)
        for name in ("mul", "mul"):
            step = core.step(name)
            masks += [
                step.mask(j, tag, (4,), np.uint64).tobytes() for j in range(3) for tag in "uv"
            ]
    assert len(set(masks)) == len(masks) == 24


def test_a_mask_is_drawn_once_and_does_not_depend_on_others() -> None:
    one, other = (Core(Simulator(), "a", SEED).step("x") for _ in range(2))
    other.mask(0, "first", (1000,), np.uint64)
    assert np.array_equal(one.mask(0, "t", (9,), np.uint32), other.mask(0, "t", (9,), np.uint32))
    assert one.mask(0, "t", (9,), np.uint32) is one.mask(3, "t", (9,), np.uint32)


def test_an_address_is_not_used_twice() -> None:
    """Within a step the stream remembers it; what earlier steps have drawn is refused as theirs."""
    core = Core(Simulator(), "a", SEED)
    one = core.step("x")
    first = core.draw(0, one.number, "zero", (4,), np.uint64)
    refused(lambda: core.draw(0, one.number, "zero", (4,), np.uint64))
    two = core.step("x")
    for tag in ("zero", "another"):
        refused(lambda tag=tag: core.draw(0, one.number, tag, (4,), np.uint64))
    refused(lambda: one.mask(0, "late", (4,), np.uint64))
    assert not np.array_equal(core.draw(0, two.number, "zero", (4,), np.uint64), first)


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is Code.ADDRESS_USED_TWICE


def test_empty_messages_are_not_sent_but_arrive() -> None:
    network = Recorder()
    step = Core(network, "a", SEED).step("x")
    message = step.send(0, 1, (0, 3), np.uint16, np.empty((0, 3), np.uint16))
    step.exchange()
    assert message.content is not None
    assert message.content.shape == (0, 3)
    assert network.plans == [("x", ())]
