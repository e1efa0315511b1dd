"""`Child`: a worker process as its daemon sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.runs.store import read_error
from hedgerow.parties.store.durable import FILE_MODE

Line = dict[str, Any]
DONE = 0
_MAX_LINE = 1 << 16


class Child:
    """A worker; it lives no longer than this process, which holds the other end of a pipe.

    `doorway`: descriptor of where the calls of the session come in, which it takes with it.
    `log` gets its standard error; `on_line` and `on_end` are called in a thread of their own.
    `met`: whether all have met in this attempt; `stages`: how often it has kept something new;
    `again`: whether another attempt may help against its error.
    """

    def __init__(
        self,
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
        self.again = True
        self._on_line, self._on_end = on_line, on_end
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = os.open(log, flags, FILE_MODE)
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    sys.executable,
                    # Not from the folder where the daemon was started, which may be anybody's.
                    "-P",
                    "-m",
                    "hedgerow.parties.runs.worker",
                    str(folder),
                    run,
                    str(attempt),
                    session.hex(),
                    str(-1 if doorway is None else doorway),
                    *members,
                ],
                pass_fds=() if doorway is None else (doorway,),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=descriptor,
            )
        finally:
            os.close(descriptor)
        self._thread = threading.Thread(target=self._read, name=f"worker {run}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def done(self) -> bool:
        """Whether it has ended well."""
        return self._process.poll() == DONE

    def kill(self) -> None:
        """End the process and wait until it has ended."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while raw := self._process.stdout.readline(_MAX_LINE):
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if not isinstance(line, dict):
                continue
            self.met |= line.get("event") == "met"
            self.stages += line.get("event") in ("stage", "kept")
            if line.get("event") == "error":
                self.again = bool(line.get("again"))
                self.error = read_error(line.get("error"))
            self._on_line(self, line)
        code = self._process.wait()
        if code != DONE and self.error is None:
            self.error = Code.PARTY_FAILED.error(
                expected=f"attempt {self.attempt} of run {self.run} to end by itself",
                found=f"a worker that was ended by signal {-code}" if code < 0 else f"code {code}",
                fix="nothing: another attempt is made; look into worker.log if it happens again",
            )
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._on_end(self)
