"""Processes for tests to kill: forks of one that has loaded the package, which takes seconds."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from hedgerow.cli.main import main

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
        *("tests.parties.runs.run_daemon", "tests.parties.store.writers", __name__),
        "hedgerow.parties.sites.service",
    ]
)


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


class ForkedCommand:
    """A command of ``hedgerow``; it has what tests use of `subprocess.Popen` with text pipes."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        pipes = [_forks.Pipe(duplex=False) for _ in range(2)]
        self._process = fork(_run_command, folder, arguments, *(end for _, end in pipes))
        for _, writing in pipes:
            writing.close()
        self.stdout, self.stderr = (_text_of(reading) for reading, _ in pipes)

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


def _text_of(reading: Connection) -> TextIO:
    with reading:
        return os.fdopen(os.dup(reading.fileno()), encoding="utf-8")


def _run_command(folder: Path, arguments: Sequence[str], out: Connection, err: Connection) -> None:
    for end, stream in ((out, 1), (err, 2)):
        os.dup2(end.fileno(), stream)
        end.close()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    os.chdir(folder)
    sys.argv = ["hedgerow", *arguments]
    main()
