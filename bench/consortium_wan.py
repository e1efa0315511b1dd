"""A wide-area network: all servers behind relays that hold every byte back for a while."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from bench.consortium_parties import OWNER, SERVERS, Consortium
from hedgerow.parties.run_client import RunClient
from hedgerow.tables import Domain
from reproduce.data_000 import DATA

DELAY = 0.02
"""Seconds one way: a round trip takes two of them."""
DEPTH = 3
_PIECE, _PIECES = 1 << 16, 1 << 12


class Relays:
    """Doors in front of ports of this machine; what comes through is late, in both directions.

    Parameters
    ----------
    ports : list of int
        Behind each a server listens, later on.
    delay : float
        Seconds one way; may be set at any time.

    Attributes
    ----------
    doors : dict of int to int
        Port of the door by the port behind it.
    """

    def __init__(self, ports: list[int], delay: float = DELAY) -> None:
        self.ports, self.delay = ports, delay
        self.doors: dict[int, int] = {}
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
        for port in self.ports:

            async def take(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port
            ) -> None:
                await self._join(reader, writer, port)

            server = await asyncio.start_server(take, "127.0.0.1", 0)
            self.doors[port] = server.sockets[0].getsockname()[1]

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        await asyncio.sleep(self.delay)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES)

        async def put_out() -> None:
            with suppress(OSError):
                while True:
                    due, piece = await pieces.get()
                    await asyncio.sleep(max(0.0, due - self._loop.time()))
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


def adult() -> tuple[pa.Table, Domain]:
    """Return the table of the census with its target."""
    found = DATA["adult"]()
    target = found.domain.target
    assert target is not None
    return found.frame.append_column(target.name, pa.array(found.target.tolist())), found.domain


def wan(town: Consortium, relays: Relays, table: pa.Table, domain: Domain) -> dict[str, Any]:
    """Train without and with the delay; return figures.

    The consortium calls its servers through the relays. A round, in which all servers send at
    once, takes the delay one way: half of a round trip.
    """
    relays.delay = 0.0
    upload_s = town.upload(table, domain)
    near = _trained(town, "near", domain)
    relays.delay = DELAY
    far = _trained(town, "far", domain)
    delayed = far["rounds"] * DELAY
    return {
        "rows": table.num_rows,
        "depth": DEPTH,
        "round_trip_ms": 2000 * DELAY,
        "upload_s": round(upload_s, 1),
        "attempts": far["attempt"],
        "rounds": far["rounds"],
        "rounds_by_stage": far["by_stage"],
        "megabytes_per_server": round(far["bytes"] / 1e6, 1),
        "seconds_without_delay": near["seconds"],
        "seconds": far["seconds"],
        "delay_per_round_ms": round(1000 * (far["seconds"] - near["seconds"]) / far["rounds"], 1),
        "rounds_one_way_s": round(delayed, 1),
        "share_of_rounds": round(delayed / far["seconds"], 2),
        "wrong": [] if near["rounds"] == far["rounds"] else ["other rounds with the delay"],
    }


def _trained(town: Consortium, name: str, domain: Domain) -> dict[str, Any]:
    """Train, and return what server 0 has told about it."""
    job = town.job(name, domain, noise="splits+leaves", epsilon=1.0, max_depth=DEPTH)
    client, told = RunClient(town.parties[OWNER]), {}
    levels: dict[int, tuple[int, float]] = {}
    client.post(job)
    end = time.monotonic() + 500
    while True:
        shown = client.show(job.run_id)
        found = shown[SERVERS[0]]
        if isinstance(found, dict):
            told = {**found, **(found.get("progress") or {})}
            if told.get("level", -1) >= 0:
                levels.setdefault(told["level"], (told["rounds"], told["seconds"]))
            states = {s.get("state") if isinstance(s, dict) else "?" for s in shown.values()}
            if states == {"done"}:
                break
            if "failed" in states or time.monotonic() > end:
                raise RuntimeError(f"{job.run_id}: {shown}")
        time.sleep(0.05)
    path = town.parties[SERVERS[0]].folder / f"state/runs/{job.run_id}/meter.json"
    rounds = sum(row["rounds"] for row in json.loads(path.read_text())["traffic"])
    marks = {"the table": 0} | {f"level {k}": levels[k][0] for k in sorted(levels)}
    names, at = list(marks), [*marks.values(), rounds]
    by_stage = {("leaves" if k > DEPTH else names[k]): at[k + 1] - at[k] for k in range(len(names))}
    return {**told, "rounds": rounds, "by_stage": by_stage}
