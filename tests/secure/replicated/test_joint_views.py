"""What a server sees altogether does not depend on inputs; masks that are reused would show."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow.secure.steps import Step
from tests.secure.replicated.joint_views import (
    LANES,
    SERVERS,
    Columns,
    same_relations,
    smallest_p_value,
    view,
)

SEEDS = 8
"""Engines with keys of their own; times 128 lanes, 1,024 runs for either input."""
NOTHING, EVERYTHING = (0, False), (2**60 - 1, True)
BOUND = 1e-9
"""Of 600,000 p-values, the smallest is about 2e-6; seeds are fixed."""

drawn = Step.mask


def seen(server: int, seeds: int = SEEDS) -> tuple[Columns, Columns]:
    return view(server, *NOTHING, seeds), view(server, *EVERYTHING, seeds)


@pytest.mark.parametrize("server", range(SERVERS))
def test_the_joint_view_of_a_server_does_not_depend_on_inputs(server: int) -> None:
    one, other = seen(server)
    assert len(one) == len(other) > 225
    assert smallest_p_value(one, other) > BOUND
    assert same_relations(one, other)


def mask_of_all_steps(step: Step, key: int, tag: str, shape: Any, dtype: Any) -> Any:
    """Leave the number of the step out of the address, and out of what refuses that."""
    number = step.number
    step.number = step.core.steps = 0
    try:
        return drawn(step, key, tag, shape, dtype)
    finally:
        step.number = step.core.steps = number


def mask_of_both_terms(step: Step, key: int, tag: str, shape: Any, dtype: Any) -> Any:
    """Hide both terms of a join under one mask."""
    return drawn(step, key, tag.replace("/v", "/u"), shape, dtype)


def mask_of_all_rows(step: Step, key: int, tag: str, shape: Any, dtype: Any) -> Any:
    """Hide all rows of an array under one mask."""
    mask = drawn(step, key, tag, shape, dtype)
    if mask.size != SERVERS * LANES:
        return mask
    return np.tile(mask.reshape(-1)[:LANES], SERVERS).reshape(mask.shape)


def no_share_of_zero(step: Step, key: int, tag: str, shape: Any, dtype: Any) -> Any:
    """Send products as they are."""
    return np.zeros(shape, dtype) if tag == "zero" else drawn(step, key, tag, shape, dtype)


@pytest.mark.parametrize(
    "broken", [mask_of_all_steps, mask_of_both_terms, mask_of_all_rows, no_share_of_zero]
)
def test_broken_masks_are_found(
    broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Step, "mask", broken)
    # Backwards, as the first of them shows itself in pairs at server 2 alone.
    views = [seen(server, seeds=4) for server in reversed(range(SERVERS))]
    assert not any(same_relations(*pair) for pair in views)
    assert any(smallest_p_value(*pair) < BOUND for pair in views)
