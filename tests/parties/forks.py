"""Processes for tests to kill: forks of one that has loaded the package, which takes seconds."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, BinaryIO

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.parties.loaded", __name__])


def fork(function: Callable[..., None], *args: Any) -> BaseProcess:
    """Start a process that calls a function of a module."""
    process = _forks.Process(target=function, args=args)
    process.start()
    return process


def fork_printing(function: Callable[..., None], *args: Any) -> tuple[BaseProcess, BinaryIO]:
    """Start a process likewise; return it with all that it prints."""
    reading, writing = _forks.Pipe(duplex=False)
    process = fork(_print_into, writing, function, args)
    writing.close()
    with reading:
        return process, os.fdopen(os.dup(reading.fileno()), "rb")


def _print_into(writing: Connection, function: Callable[..., None], args: tuple[Any, ...]) -> None:
    for stream in (1, 2):
        os.dup2(writing.fileno(), stream)
    writing.close()
    function(*args)


class Program:
    """The command ``hedgerow`` with arguments, forked; what it writes goes behind a log.

    A ``sitecustomize.py`` on the PYTHONPATH of the environment is run first, as Python would.
    """

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
        self._process = fork(_be_program, arguments, log, environment)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return its exit code, if it has ended."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        # It may end by itself in between.
        with suppress(ProcessLookupError):
            if self._process.is_alive():
                os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> None:
        self._process.join(seconds)

    def end(self) -> None:
        """Stop it, the hard way if need be."""
        self.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.join(20)
        self._process.kill()
        self._process.join()


def _be_program(arguments: list[str], log: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    for folder in environment.get("PYTHONPATH", "").split(os.pathsep):
        if (found := Path(folder) / "sitecustomize.py").exists():
            runpy.run_path(str(found))
    _be_command(arguments, log, log)


def run_command(
    arguments: Sequence[object], folder: Path, patience: float
) -> subprocess.CompletedProcess[str]:
    """Run the command ``hedgerow`` in a folder, forked; return how it ended and what it printed."""
    words = [str(word) for word in arguments]
    with tempfile.TemporaryDirectory() as kept:
        out, err = Path(kept) / "out", Path(kept) / "err"
        process = fork(_be_command, words, out, err, folder)
        process.join(patience)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, patience, out.read_bytes(), err.read_bytes())
        return subprocess.CompletedProcess(
            words, process.exitcode, out.read_text(), err.read_text()
        )


def _be_command(arguments: list[str], out: Path, err: Path, folder: Path | None = None) -> None:
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    if folder is not None:
        os.chdir(folder)
    from hedgerow.cli.main import main

    sys.argv = ["hedgerow", *arguments]
    main()


def offspring(parent: int) -> list[int]:
    """Return the processes that a process has started, and those that they have, in that order."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, _, rest = path.read_text().partition(" (")
            parents[int(pid)] = int(rest.rpartition(")")[2].split()[1])
    found = [parent]
    for one in found:
        found += [pid for pid, above in parents.items() if above == one]
    return found[1:]
