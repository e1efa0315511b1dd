"""Fault injection: a party whose connection misbehaves once, for tests of all the others."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hedgerow.net.channel import Piece
from hedgerow.net.frames import FrameKind
from hedgerow.net.launch import Outcome, run_parties
from hedgerow.net.tls import TLSNetwork

Kind = Literal[
    "delay",
    "drop",
    "cut",
    "die",
    "garbage",
    "replay",
    "repeat",
    "half",
    "wrong version",
    "wrong session",
    "wrong sender",
    "wrong step",
    "wrong size",
    "huge size",
]
_VERSION, _SENDER, _SESSION, _STEP, _SIZE = 4, 6, 8, 32, 48


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and when.

    `kind` is ``"delay"`` (by `seconds`), ``"drop"`` (the frame is never sent), ``"cut"`` (the
    connection is closed), ``"die"`` (the process ends), ``"garbage"`` (random bytes instead of the
    frame), ``"replay"`` (the frame before instead of this one), ``"repeat"`` (this frame twice),
    ``"half"`` (half of the frame, then silence), or one header field that is wrong.
    """

    kind: Kind
    step: str
    peer: int | None = None
    seconds: float = 0.0


class Spoiler:
    """Has a network that has met the others send wrong frames in one step."""

    def __init__(self, network: TLSNetwork, fault: Fault) -> None:
        self.network, self.fault = network, fault
        self._before: dict[int, bytes] = {}
        self._silent = False
        self._sound = network._frame
        network._frame = self._frame  # type: ignore[method-assign]

    def _frame(
        self, step: str, peer: int, kind: FrameKind, digest: bytes, views: Sequence[memoryview]
    ) -> Iterable[Piece]:
        frame = b"".join(self._sound(step, peer, kind, digest, views))
        before = self._before.get(peer, b"")
        self._before[peer] = frame
        if self._silent:
            return []
        if step != self.fault.step or self.fault.peer not in (None, peer):
            return [frame]
        return [self._spoil(peer, frame, before)]

    def _spoil(self, peer: int, frame: bytes, before: bytes) -> bytes:
        match self.fault.kind:
            case "delay":
                time.sleep(self.fault.seconds)
                return frame
            case "drop":
                return b""
            case "cut":
                self.network._channels[peer].stream.end()
                return frame
            case "die":
                os._exit(1)
            case "garbage":
                return os.urandom(len(frame))
            case "replay":
                return before
            case "repeat":
                return frame + frame
            case "half":
                self._silent = True
                return frame[: len(frame) // 2]
            case "wrong version":
                return _flip(frame, _VERSION)
            case "wrong sender":
                return _flip(frame, _SENDER)
            case "wrong session":
                return _flip(frame, _SESSION)
            case "wrong step":
                return _flip(frame, _STEP)
            case "wrong size":
                return _flip(frame, _SIZE + 7)
            case "huge size":
                return _flip(frame, _SIZE)


def _flip(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 0x40]) + frame[at + 1 :]


def run_spoilt(
    program: Callable[..., Any],
    faults: Mapping[int, Fault],
    n: int = 3,
    args: Sequence[Any] = (),
    **options: Any,
) -> list[Outcome]:
    """Run a program as `run_parties` does, some parties with a fault; nothing is raised."""
    name = f"{program.__module__}:{program.__qualname__}"
    spoilt = {str(party): asdict(fault) for party, fault in faults.items()}
    return run_parties(spoilt_member, n, [name, spoilt, *args], check=False, **options)


def spoilt_member(
    network: TLSNetwork, program: str, faults: Mapping[str, Any], *args: Any
) -> object:
    """Be one party of `run_spoilt`."""
    if str(network.party) in faults:
        Spoiler(network, Fault(**faults[str(network.party)]))
    module, _, function = program.partition(":")
    found: object = getattr(importlib.import_module(module), function)(network, *args)
    return found
