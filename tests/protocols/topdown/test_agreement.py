from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.net.simulator import Simulator
from hedgerow.protocols.topdown.agreement import Stage, agree, await_kept, cost_agreement
from hedgerow.protocols.topdown.wire import Ask
from tests.protocols.topdown.secure_counts import meeting
from tests.secure.engines import metered

NOTHING = np.zeros(0, dtype=np.uint8)
QUESTION = Ask("f" * 64, 1, "servers", (), (0,), (), {"amsterdam": NOTHING})
FRESH, KEPT, OPENING, OPENED = Stage


def met(
    stages: list[Stage], questions: list[Ask] | None = None, tags: list[bytes] | None = None
) -> list[Any]:
    """What each of three servers apart concludes; the number of the error where it refuses."""
    rooms = meeting()

    def one(server: int) -> Any:
        try:
            asked = (questions or [QUESTION] * 3)[server]
            tag = (tags or [bytes(32)] * 3)[server]
            return agree(rooms(server)(), asked, stages[server], tag).stage
        except Exception as error:
            return error.code

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, range(3)))


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([FRESH, FRESH, FRESH], FRESH),
        ([KEPT, KEPT, KEPT], KEPT),
        ([OPENED, KEPT, OPENED], KEPT),
        ([OPENED, OPENED, OPENED], KEPT),
        ([FRESH, KEPT, KEPT], FRESH),
        ([KEPT, FRESH, FRESH], FRESH),
        ([OPENED, KEPT, FRESH], Code.ANSWERS_LOST),
        ([FRESH, FRESH, OPENED], Code.ANSWERS_LOST),
        ([OPENING, KEPT, OPENED], KEPT),
        ([OPENING, KEPT, FRESH], Code.ANSWERS_LOST),
        ([FRESH, FRESH, OPENING], Code.ANSWERS_LOST),
    ],
)
def test_servers_go_on_from_the_point_that_all_have_reached(
    stages: list[Stage], expected: object
) -> None:
    assert met(stages) == [expected] * 3


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, nodes=(1,)),
        replace(QUESTION, round=3),
        replace(QUESTION, arrays={"berlin": NOTHING}),
        replace(QUESTION, arrays={}),
    ],
)
def test_servers_that_are_asked_different_things_stop(other: Ask) -> None:
    assert met([FRESH] * 3, [QUESTION, other, QUESTION]) == [Code.BAD_ASK] * 3


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([KEPT, KEPT, KEPT], FRESH),
        ([KEPT, KEPT, FRESH], FRESH),
        ([OPENED, KEPT, KEPT], Code.ANSWERS_LOST),
        ([KEPT, OPENED, KEPT], Code.ANSWERS_LOST),
        ([KEPT, KEPT, OPENING], Code.ANSWERS_LOST),
    ],
)
def test_shares_of_two_draws_do_not_fit_together(stages: list[Stage], expected: object) -> None:
    one, other = bytes([1]) * 32, bytes([2]) * 32
    assert met(stages, tags=[one, one, other]) == [expected] * 3


def test_a_draw_has_a_tag_of_its_own() -> None:
    network = Simulator(3)
    first, second = agree(network, QUESTION, FRESH), agree(network, QUESTION, FRESH)
    assert first.tag != second.tag
    assert agree(network, QUESTION, KEPT, first.tag) == (KEPT, first.tag)


def test_cost_is_as_declared() -> None:
    network = Simulator(3)

    def both() -> None:
        agree(network, QUESTION, FRESH)
        await_kept(network)

    engine = type("Metered", (), {"network": network, "n_parties": 3})
    assert metered(engine, both) == cost_agreement()
