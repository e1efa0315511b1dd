import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.topdown.server_state import Last, read_state, write_state
from hedgerow.protocols.topdown.wire import Ask
from tests.protocols.topdown.secure_counts import plan_of

PLAN = plan_of()
ASK = Ask(PLAN.digest, 3, "servers", ((0, 2),), (1, 2), (), {"a": np.zeros(0, dtype=np.uint8)})
USED = np.array([0, 704])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize(("marked", "opened"), [(False, False), (True, False), (True, True)])
def test_what_was_written_is_read(dtype: str, marked: bool, opened: bool) -> None:
    data = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(dtype) - np.array(9, dtype=dtype)
    numbers = np.array([[1, -2, 3]]) if opened else None
    state = write_state(PLAN, [1], [(0, 2)], Last(ASK, data, USED, b"tag", marked, numbers))
    splits, last = read_state(state, PLAN, [1])
    assert splits == [(0, 2)]
    assert last.ask.to_bytes() == ASK.to_bytes()
    assert last.data.dtype == dtype
    np.testing.assert_array_equal(last.data, data)
    np.testing.assert_array_equal(last.used, USED)
    assert last.tag == b"tag"
    assert last.marked is marked
    assert (last.numbers is None) == (not opened)
    if opened:
        np.testing.assert_array_equal(last.numbers, numbers)


def test_a_server_that_was_asked_nothing_keeps_nothing() -> None:
    assert read_state(write_state(PLAN, [0, 1, 2], [], None), PLAN, [0, 1, 2]) == ([], None)


def test_other_files_are_refused() -> None:
    state = write_state(PLAN, [1], [], Last(ASK, np.zeros(3, dtype=np.uint64), USED, bytes(1)))
    for text, plan, servers in (
        (state, plan_of(epsilon=9.0), [1]),
        (state, PLAN, [2]),
        (state[:-1], PLAN, [1]),
        (state + b"x", PLAN, [1]),
        (b"", PLAN, [1]),
        (state.replace(b"uint64", b"object"), PLAN, [1]),
        (state.replace(b'"splits":[]', b'"splits":[1]'), PLAN, [1]),
        (state.replace(b'["uint64",[3],', b'["uint64",[4],'), PLAN, [1]),
        (state.replace(b'[3],"00",', b'[3],"0",'), PLAN, [1]),
        (state.replace(b'"00",false]', b'"00",0]'), PLAN, [1]),
        (state.replace(b'"00",false]', b'"00"]'), PLAN, [1]),
        (state.replace(b'"ask"', b'"asc"'), PLAN, [1]),
    ):
        assert text != state or plan is not PLAN or servers != [1]
        with pytest.raises(HedgerowError) as error:
            read_state(text, plan, servers)
        assert error.value.code is Code.ANSWERS_LOST
