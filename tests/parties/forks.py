"""Processes for tests to kill: forks of one that has loaded the package, which takes seconds."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, BinaryIO

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["tests.parties.runs.run_daemon", "tests.parties.store.writers", __name__]
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
