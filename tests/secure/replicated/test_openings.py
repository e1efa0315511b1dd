"""Audiences and who sees what."""

import copy
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z64
from hedgerow.secure.steps import parties_of
from tests.net.faults import Fault, run_spoilt
from tests.net.net_parties import Club
from tests.secure.replicated.three_server_programs import open_last
from tests.secure.replicated.wires import apart, everything


def test_parties_of_audiences() -> None:
    assert parties_of("server", "server", 3) == (0, 1, 2)
    assert parties_of("server 2", "server", 3) == (2,)
    assert parties_of("public", "server", 3) == (0, 1, 2)
    assert parties_of("peer 4", "peer", 5) == (4,)


@pytest.mark.parametrize("to", ["server 3", "analyst", "owner 0"])
def test_an_audience_without_a_server_is_refused(to: str) -> None:
    with pytest.raises(HedgerowError, match="H501"):
        parties_of(to, "server", 3)


def test_nothing_is_recorded_when_the_audience_has_no_server() -> None:
    engine = ReplicatedEngine(Simulator(3), everything(("x", "analyst", (1,))))
    with pytest.raises(HedgerowError, match="H501"):
        engine.open(engine.public(np.ones(1, dtype=int), Z64), "x", "analyst")
    assert engine.leakage.what_was_learned("analyst") == []


def test_a_secret_of_another_engine_is_not_opened() -> None:
    one, other = (
        ReplicatedEngine(Simulator(3), everything(("x", "server", (1,)))) for _ in range(2)
    )
    with pytest.raises(HedgerowError, match="H702"):
        one.open(other.public(np.ones(1, dtype=int), Z64), "x", "server")
    assert one.leakage.what_was_learned("server") == []


def test_an_engine_cannot_be_copied() -> None:
    engine = ReplicatedEngine(Simulator(3), everything(("x", "server", (1,))))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(HedgerowError):
            attempt(engine.core)
    with pytest.raises(HedgerowError):
        copy.deepcopy(engine)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_draws_no_masks() -> None:
    engine = ReplicatedEngine(Simulator(3), everything(("x", "server", (1,))))
    child = os.fork()
    if child == 0:
        refused = 1
        try:
            engine.random_bits((1,))
        except HedgerowError as error:
            refused = 0 if error.code is Code.ADDRESS_USED_TWICE else 2
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(("to", "who"), [("server", {0, 1, 2}), ("server 1", {1})])
def test_only_the_audience_gets_the_value(to: str, who: set[int]) -> None:
    a = np.array([3, 2**63, 2**64 - 1], dtype=np.uint64)

    def program(engine: ReplicatedEngine, party: int) -> object:
        x = engine.input(a if party == 2 else None, 2, a.shape, Z64)
        return engine.open(x, "x", to)

    parts = apart(3, program, lambda: everything(("x", to, (3,))))
    assert {p for p, (opened, _) in enumerate(parts) if opened is not None} == who
    assert all(np.array_equal(parts[p][0], a) for p in who)


def ends_of(folder: Path, n: int, *args: Any, fault: Fault | None = None) -> list[Any]:
    """Run `open_last` at n parties over TLS; return values, or the numbered errors.

    Parties are threads; where one is lost, processes.
    """
    faults = {} if fault is None else {1: fault}
    if fault is None or fault.kind not in ("cut", "die"):
        changes = {party: {"fault": spoilt} for party, spoilt in faults.items()}
        return Club(folder, n).run(lambda network: open_last(network, *args), changes)
    ends = run_spoilt(open_last, faults, n, args)
    assert all("Traceback" not in end.log for end in ends)
    return [end.value if end.error is None else end.error for end in ends]


def test_an_opening_in_the_last_step(tmp_path: Path) -> None:
    ends = ends_of(tmp_path, 3, 20.0, "server")
    assert [end.tolist() for end in ends] == [[9, 16, 25]] * 3


KINDS = ["drop", "cut", "garbage", "half", "die", "wrong step"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_the_last_opening_leaves_nobody_with_a_value(kind: Any, tmp_path: Path) -> None:
    # Only silence takes the whole timeout.
    timeout = 1.0 if kind == "half" else 20.0
    ends = ends_of(tmp_path, 3, timeout, "server", fault=Fault(kind, "open"))
    assert all(isinstance(end, HedgerowError) for end in ends)
    # Server 2 lacks the share that server 1 spoils; it may hear of a lost peer a step before.
    assert re.search("party .* step '(mul|open)'", str(ends[2]))


@pytest.mark.parametrize("odd", [["other", "server"], ["own", "server 0"]], ids=["name", "plan"])
def test_servers_that_open_different_things_open_nothing(odd: list[str], tmp_path: Path) -> None:
    ends = ends_of(tmp_path, 3, 20.0, "server", odd)
    assert all(isinstance(end, HedgerowError) for end in ends)
    assert Code.BAD_FRAME in {end.code for end in ends}
