"""Commands of ``hedgerow`` as processes that can be killed, forked from one that has loaded it.

A test that starts many of them does not wait for the imports once for each.
"""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import hedgerow.parties.sites.service  # noqa: F401 (loaded once, for all forks)
from hedgerow.cli.main import main

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__, "tests.parties.runs.run_daemon"])


class ForkedCommand:
    """A command in a process of its own; what tests use of `subprocess.Popen`, with text pipes."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        out, out_end = _forks.Pipe(duplex=False)
        err, err_end = _forks.Pipe(duplex=False)
        self._process = _forks.Process(target=_run, args=(folder, arguments, out_end, err_end))
        self._process.start()
        for end in (out_end, err_end):
            end.close()
        self.stdout = os.fdopen(os.dup(out.fileno()), encoding="utf-8")
        self.stderr = os.fdopen(os.dup(err.fileno()), encoding="utf-8")
        for end in (out, err):
            end.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what is left of both pipes, up to the end of the process."""
        texts = self.stdout.read(), self.stderr.read()
        self._process.join(timeout)
        return texts


def _run(folder: Path, arguments: Sequence[str], out: Connection, err: Connection) -> None:
    for end, descriptor in ((out, 1), (err, 2)):
        os.dup2(end.fileno(), descriptor)
        end.close()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    os.chdir(folder)
    sys.argv = ["hedgerow", *arguments]
    main()
