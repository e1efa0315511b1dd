"""What a server keeps between questions, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.wire import Ask, pack, unpack

_VERSION = 2
_RINGS = ("uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Last:
    """The question that came last, as far as it got.

    Attributes
    ----------
    ask : Ask
        Without the parts.
    data : ndarray
        Shares of its numbers, of the servers that live here.
    used : int64, shape (owners,)
        Whose counts are in them.
    tag : bytes
        Of the draw: the same at all servers whose shares fit together.
    marked : bool
        Whether shares of it may have left this process.
    numbers : int64 array or None
        What was opened, as soon as it was.
    """

    ask: Ask
    data: NDArray[Any]
    used: NDArray[np.int64]
    tag: bytes
    marked: bool = False
    numbers: NDArray[np.int64] | None = None


def write_state(
    plan: TopDownPlan, servers: Sequence[int], splits: Sequence[tuple[int, int]], last: Last | None
) -> bytes:
    """Write the state of some servers."""
    head: dict[str, Any] = {
        "hedgerow": "topdown server",
        "version": _VERSION,
        "plan": plan.digest,
        "servers": list(servers),
        "splits": [list(pair) for pair in splits],
        "last": None,
    }
    if last is None:
        return pack(head, {})
    little = last.data.astype(last.data.dtype.newbyteorder("<"), copy=False)
    head["last"] = [last.data.dtype.name, list(last.data.shape), last.tag.hex(), last.marked]
    arrays: dict[str, NDArray[Any]] = {
        "ask": np.frombuffer(last.ask.to_bytes(), dtype=np.uint8),
        "data": np.ascontiguousarray(little).reshape(-1).view(np.uint8),
        "used": last.used,
    }
    if last.numbers is not None:
        arrays["numbers"] = last.numbers
    return pack(head, arrays)


def read_state(
    state: bytes, plan: TopDownPlan, servers: Sequence[int]
) -> tuple[list[tuple[int, int]], Last | None]:
    """Read what `write_state` wrote: the splits, and the last question; else H840."""
    head, arrays = unpack(state, Code.ANSWERS_LOST)
    found = tuple(head.get(name) for name in ("hedgerow", "version", "plan", "servers"))
    if found != ("topdown server", _VERSION, plan.digest, list(servers)):
        raise Code.ANSWERS_LOST.error(
            expected=f"the state of servers {list(servers)} in the plan {plan.digest[:16]}",
            found="that of another plan, of other servers, or another file",
        )
    try:
        splits = [(int(a), int(b)) for a, b in head["splits"]]
        if head["last"] is None:
            return splits, None
        name, shape, tag, marked = head["last"]
        if name not in _RINGS or type(marked) is not bool:
            raise ValueError(name)
        data = np.frombuffer(arrays["data"].tobytes(), np.dtype(name).newbyteorder("<"))
        ask = Ask.from_bytes(arrays["ask"].tobytes())
        native = data.astype(name).reshape(shape)
        used, numbers = arrays["used"], arrays.get("numbers")
        return splits, Last(ask, native, used, bytes.fromhex(tag), marked, numbers)
    except (HedgerowError, ValueError, TypeError, KeyError):
        raise Code.ANSWERS_LOST.error(found="a damaged state") from None
