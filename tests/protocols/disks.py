"""Memories that end their member before or after a durable step, for tests of programs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field


class KilledError(Exception):
    """Stands for the end of a process."""


@dataclass
class Disk:
    """The memory of one member, which may end it before or after a durable step."""

    state: bytes | None = None
    heard: list[bytes] = field(default_factory=list)
    steps: int = 0
    kill: tuple[int, str] | None = None

    def load(self) -> bytes | None:
        return self.state

    def lines(self) -> Iterable[bytes]:
        return list(self.heard)

    def keep(self, state: bytes) -> None:
        with _step(self):
            self.state = state

    def append(self, line: bytes) -> None:
        with _step(self):
            self.heard.append(line)


class _step:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def _end(self, when: str) -> None:
        if self.disk.kill == (self.disk.steps, when):
            self.disk.kill = None
            raise KilledError(when)

    def __enter__(self) -> None:
        self._end("before")

    def __exit__(self, *error: object) -> None:
        self._end("after")
        self.disk.steps += 1


def kills(disks: Mapping[str, Disk], members: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Return all places where a member of a run that nobody disturbs can be killed."""
    for member in members:
        for step in range(disks[member].steps):
            for when in ("before", "after"):
                yield member, step, when
