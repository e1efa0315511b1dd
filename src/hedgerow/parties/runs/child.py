"""`Child`: a worker process as its daemon sees it; `Forker`: the process that forks workers."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.runs.store import read_error
from hedgerow.parties.runs.worker import DONE, ENDED, take_orders
from hedgerow.parties.store.durable import FILE_MODE

Line = dict[str, Any]
_MAX_LINE = 1 << 16


class Forker:
    """A process that has loaded all that workers need, so that they begin at once when forked.

    It ends with this process, or when it is closed; one that was killed is started anew. For all
    threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: socket.socket | None = None
        self._pid = self._last = 0

    def start(self) -> Forker:
        """Fork it, before this process has threads or opens anything.

        Else it is started as a program of its own with the first worker, and loads first.
        """
        self._pipe, theirs = _pipe()
        self._pid = os.fork()
        if not self._pid:
            self._pipe.close()
            try:
                take_orders(theirs)
            finally:
                os._exit(0)
        theirs.close()
        return self

    def fork(self, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
        """Order a worker (`worker.attempt_run`) with these descriptors; return its number.

        They are its standard input, output and error, and the doorway, if there is one.
        """
        with self._lock:
            self._last += 1
            order = [str(self._last), *arguments]
            try:
                self._send(order, descriptors)
            except OSError:
                self._end()
                self._send(order, descriptors)
            return self._last

    def kill(self, number: int) -> None:
        """End a worker and return when it has ended; those of a forker that was killed are left."""
        with self._lock:
            try:
                self._send(number)
                assert self._pipe is not None
                self._pipe.recv(1)
            except OSError:
                self._end()

    def close(self) -> None:
        """End it; workers that are under way go on."""
        with self._lock:
            self._end()

    def _begin(self) -> socket.socket:
        if self._pipe is None:
            self._pipe, theirs = _pipe()
            # Not from the folder where the daemon was started, which may be anybody's.
            program = [sys.executable, "-P", "-m", "hedgerow.parties.runs.worker"]
            actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
            self._pid = os.posix_spawn(program[0], program, os.environ, file_actions=actions)
            theirs.close()
        return self._pipe

    def _send(self, order: list[str] | int, descriptors: Sequence[int] = ()) -> None:
        socket.send_fds(self._begin(), [json.dumps(order).encode()], descriptors)

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pipe = None


def _pipe() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Child:
    """A worker; it lives no longer than this process, which holds the other end of a pipe.

    `doorway`: descriptor of where the calls of the session come in, which it takes with it.
    `log` gets its standard error; `on_line` and `on_end` are called in a thread of their own.
    `met`: whether all have met in this attempt; `stages`: how often it has kept something new;
    `done`: whether it has ended well; `again`: whether another attempt may help against its error.
    """

    def __init__(
        self,
        forker: Forker,
        folder: Path,
        run: str,
        attempt: int,
        session: bytes,
        doorway: int | None,
        members: Sequence[str],
        *,
        log: Path,
        on_line: Callable[[Child, Line], None],
        on_end: Callable[[Child], None],
    ) -> None:
        self.run, self.attempt = run, attempt
        self.met, self.stages = False, 0
        self.error: HedgerowError | None = None
        self.again, self.done = True, False
        self._forker, self._on_line, self._on_end = forker, on_line, on_end
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        theirs = [os.open(log, flags, FILE_MODE)]
        try:
            stdin, held = os.pipe()
            said, stdout = os.pipe()
            self._held, self._said = os.fdopen(held, "wb"), os.fdopen(said, "rb")
            theirs = [stdin, stdout, *theirs]
            passed = theirs if doorway is None else [*theirs, doorway]
            arguments = [str(folder), run, str(attempt), session.hex(), *members]
            self._number = forker.fork(arguments, passed)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._thread = threading.Thread(target=self._read, name=f"worker {run}", daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """End the process and wait until it has ended."""
        self._forker.kill(self._number)
        # Enough where the forker is gone, and with it the way to wait.
        self._held.close()

    def _read(self) -> None:
        code = None
        while raw := self._said.readline(_MAX_LINE):
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if not isinstance(line, dict):
                continue
            if line.get("event") == ENDED:
                code = int(line["code"])
                break
            self.met |= line.get("event") == "met"
            self.stages += line.get("event") in ("stage", "kept")
            if line.get("event") == "error":
                self.again = bool(line.get("again"))
                self.error = read_error(line.get("error"))
            self._on_line(self, line)
        self.done = code == DONE
        if not self.done and self.error is None:
            found = "a worker that is gone" if code is None else f"code {code}"
            if code is not None and code < 0:
                found = f"a worker that was ended by signal {-code}"
            self.error = Code.PARTY_FAILED.error(
                expected=f"attempt {self.attempt} of run {self.run} to end by itself",
                found=found,
                fix="nothing: another attempt is made; look into worker.log if it happens again",
            )
        self._held.close()
        self._said.close()
        self._on_end(self)
