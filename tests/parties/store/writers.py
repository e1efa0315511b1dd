"""Programs that write to a store and say what is on the disk, until they are killed."""

import os
import resource
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from hedgerow.errors import HedgerowError
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.store.database import Store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.vault import write_arrays
from hedgerow.privacy import Release


def charge_releases(root: Path, releases: list[Release]) -> None:
    """Charge releases to a ledger, one after the other."""
    ledger = DurableLedger(Store(StateFolder(root)), "run-1")
    print("ready", flush=True)
    for i, release in enumerate(releases):
        ledger.charge(release)
        print(i, flush=True)


def keep_memories(root: Path, first: int) -> None:
    """Keep one state of a run after the other."""
    memory = RunMemory(Store(StateFolder(root)), "wards-1", "north")
    print("ready", flush=True)
    for i in range(first, 10**9):
        memory.keep(str(i).encode())
        print(i, flush=True)


def write_vaults(path: Path, key: bytes) -> None:
    """Write one file again and again."""
    for i in range(1, 10**9):
        arrays = {"a": np.full(300_000, i), "b": np.full(3, i)}
        write_arrays(path, arrays, key, about={})
        print(i, flush=True)


def write_entries(root: Path, run: str) -> None:
    """Write to the store of a party, from two threads."""
    store = Store(StateFolder(root))
    print("ready", flush=True)

    def work(thread: int) -> None:
        for i in range(10**9):
            key = f"{run}-{thread}-{i}"
            with store.transaction("note") as made:
                made.tell("note", {"key": key, "padding": "x" * (37 * i % 5000)})
            sys.stdout.write(f"{key}\n")
            sys.stdout.flush()

    for thread in range(2):
        threading.Thread(target=work, args=(thread,)).start()


def die_before_commit(root: Path, key: str) -> None:
    """Write, and be killed before that is committed."""
    with Store(StateFolder(root)).transaction("note") as made:
        made.tell("note", {"key": key})
        print("written", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def commit_and_die(root: Path, key: str) -> None:
    """Write, and be killed as soon as that is committed."""
    with Store(StateFolder(root)).transaction("note") as made:
        made.tell("note", {"key": key})
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk(root: Path) -> None:
    """Write until files may not grow, and three times more; say what was acknowledged."""
    store, failures = Store(StateFolder(root)), 0
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    for i in range(1000):
        try:
            with store.transaction("note") as made:
                made.tell("note", {"key": f"{i}", "padding": "x" * 3000})
            print(i, flush=True)
        except HedgerowError as error:
            print(error.code.number, flush=True)
            failures += 1
        if failures == 3:
            return
