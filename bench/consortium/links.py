"""Links between parties on loopback, which can be slow and can be cut: TCP relays.

Every caller has a door of its own to every port of every party that takes calls, so that one link
can be cut, or all links of a party. What a cut does to the connections on it:

- ``reset``: they end at once for both sides, and new ones are refused.
- ``silence``: nothing comes through, and nobody is told; what was sent arrives when it is mended.
- ``lost``: as silence, but connections that were there end when it is mended.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.founding import party_toml

Cut = Literal["reset", "silence", "lost"]
CUTS: tuple[Cut, ...] = ("reset", "silence", "lost")
_PORTS = ("port", "run_port")
_PIECE, _PIECES = 1 << 16, 1 << 12
_LINGER = struct.pack("ii", 1, 0)
"""Makes the kernel send a reset when a socket is closed."""


@dataclass(eq=False)
class Link:
    """Between two parties; its connections."""

    cut: Cut | None = None
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    ends: set[asyncio.StreamWriter] = field(default_factory=set)


class Links:
    """Doors in front of the ports of those who take calls.

    `ports`: of each of them, on this machine; it listens there later on. `delay`: seconds one way;
    may be set at any time. `doors`: dict of (str, int) to int; port of a caller's door by the
    caller and the port behind it.
    """

    def __init__(
        self, ports: Mapping[str, Sequence[int]], callers: Sequence[str], delay: float = 0.0
    ) -> None:
        self.delay, self.doors = delay, dict[tuple[str, int], int]()
        self._ports, self._callers = ports, callers
        self._links: dict[frozenset[str], Link] = {}
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._open.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self, party: str, kind: Cut, other: str | None = None) -> None:
        """Cut the link between two parties, or all links of one."""
        self._do(self._cut(self._of(party, other), kind))

    def mend(self, party: str, other: str | None = None) -> None:
        """Make links good again."""
        self._do(self._mend(self._of(party, other)))

    def _of(self, party: str, other: str | None) -> list[Link]:
        wanted = {party} if other is None else {party, other}
        return [link for both, link in self._links.items() if wanted <= both]

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _cut(self, links: Iterable[Link], kind: Cut) -> None:
        for link in links:
            link.cut = kind
            link.flows.clear()
            if kind == "reset":
                _end(link)

    async def _mend(self, links: Iterable[Link]) -> None:
        for link in links:
            if link.cut == "lost":
                _end(link)
            link.cut = None
            link.flows.set()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._open.set()
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _listen(self) -> None:
        for caller in self._callers:
            for server, ports in self._ports.items():
                if server == caller:
                    continue
                link = self._links.setdefault(frozenset((caller, server)), Link())
                link.flows.set()
                for port in ports:
                    self.doors[caller, port] = await self._door(link, port)

    async def _door(self, link: Link, port: int) -> int:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._join(link, reader, writer, port)

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _join(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        if link.cut == "reset":
            _abort(writer)
            return
        link.ends.add(writer)
        back = None
        try:
            await asyncio.sleep(self.delay)
            await link.flows.wait()
            if writer.is_closing():
                return
            there, back = await asyncio.open_connection("127.0.0.1", port)
            link.ends.add(back)
            await asyncio.gather(self._carry(link, reader, back), self._carry(link, there, writer))
        except OSError:
            writer.close()
        finally:
            link.ends -= {writer, back}

    async def _carry(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES)

        async def put_out() -> None:
            with suppress(OSError):
                while True:
                    due, piece = await pieces.get()
                    if due > self._loop.time():
                        await asyncio.sleep(due - self._loop.time())
                    await link.flows.wait()
                    if not piece:
                        break
                    writer.write(piece)
                    await writer.drain()
            writer.close()

        task = asyncio.ensure_future(put_out())
        piece = b"?"
        while piece:
            try:
                piece = await reader.read(_PIECE)
            except OSError:
                piece = b""
            if task.done():
                break
            await pieces.put((self._loop.time() + self.delay, piece))
        await task


def reroute(config: PartyConfig, doors: Mapping[tuple[str, int], int]) -> PartyConfig:
    """Make a party call the others at its doors, from its next start on; return what it reads."""

    def behind(member: Member) -> Member:
        if not member.takes_calls or member.name == config.name:
            return member
        ports = {key: doors.get((config.name, getattr(member, key)), 0) for key in _PORTS}
        return member.model_copy(update=ports)

    changed = config.model_copy(update={"members": tuple(map(behind, config.members))})
    (config.folder / "party.toml").write_text(party_toml(changed))
    return PartyConfig.load(config.folder)


def _end(link: Link) -> None:
    for writer in list(link.ends):
        _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    writer.transport.abort()
