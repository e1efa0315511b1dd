"""Parts that do not fit together are found, by all servers alike."""

import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.privacy import Leakage
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import Dealt, deal, join_parts
from hedgerow.secure.replicated.outside_check import cost_fit_together, fit_together
from hedgerow.secure.ring import Z32
from tests.secure.engines import metered
from tests.secure.replicated.wires import Recorder, apart

VALUES = np.arange(12, dtype=np.uint32).reshape(3, 4)


def parts_of(n: int) -> dict[int, list[Dealt | None]]:
    arrays = [deal(VALUES + i) for i in range(n)]
    return {server: [array[server] for array in arrays] for server in range(3)}


def engine_of(network=None) -> ReplicatedEngine:
    return ReplicatedEngine(network or Recorder(3), Leakage([]), insecure_seed=b"check")


def test_honest_parts_fit() -> None:
    np.testing.assert_array_equal(fit_together(engine_of(), parts_of(4), 4), [True] * 4)


def spoil_seed(parts, server: int, share: int) -> None:
    one = parts[server][1]
    parts[server][1] = replace(one, seeds={**one.seeds, share: os.urandom(16)})


def spoil_rest(parts, server: int) -> None:
    one = parts[server][1]
    correction = one.correction.copy()
    correction[2, 3] += 1
    parts[server][1] = replace(one, correction=correction)


SPOILT = {
    "seed 0 at server 0": lambda parts: spoil_seed(parts, 0, 0),
    "seed 1 at server 1": lambda parts: spoil_seed(parts, 1, 1),
    "seed 0 at server 2": lambda parts: spoil_seed(parts, 2, 0),
    "correction at server 1": lambda parts: spoil_rest(parts, 1),
    "correction at server 2": lambda parts: spoil_rest(parts, 2),
    "nothing at server 0": lambda parts: parts[0].__setitem__(1, None),
    "nothing anywhere": lambda parts: [parts[s].__setitem__(1, None) for s in range(3)],
}


@pytest.mark.parametrize("how", list(SPOILT))
def test_all_servers_find_the_one_that_does_not_fit(how: str) -> None:
    parts = parts_of(3)
    SPOILT[how](parts)
    found = apart(3, lambda e, p: fit_together(e, {p: parts[p]}, 3), lambda: Leakage([]))
    for verdict, _ in found:
        np.testing.assert_array_equal(verdict, [True, False, True])
    np.testing.assert_array_equal(fit_together(engine_of(), parts, 3), [True, False, True])


def test_no_server_sees_a_hash_that_it_could_test_guesses_with() -> None:
    network, parts = Recorder(3), parts_of(1)
    fit_together(engine_of(network), parts, 1)
    correction = parts[1][0].correction
    plain = hashlib.blake2b(
        b"rest" + correction.tobytes(), digest_size=32, person=b"hedgerow/dealt/1"
    ).digest()
    messages = [view.tobytes() for view in network.views[0]]
    assert len(messages) == 4
    assert plain not in messages


def test_cost_is_as_declared() -> None:
    engine = engine_of()
    assert metered(engine, lambda: fit_together(engine, parts_of(5), 5)) == cost_fit_together(5)


@pytest.mark.parametrize("xor", [False, True])
def test_who_holds_all_parts_holds_the_array(xor: bool) -> None:
    np.testing.assert_array_equal(
        join_parts(deal(VALUES, xor=xor), VALUES.shape, Z32.dtype, xor=xor), VALUES
    )
