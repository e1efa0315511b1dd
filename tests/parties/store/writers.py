"""Programs that write to a store and say what is on the disk, until they are killed."""

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.parties.store.journal import Journal
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.vault import write_arrays
from hedgerow.privacy import Release


def append_entries(path: Path, run: int) -> None:
    """Append to a journal, from three threads."""
    journal = Journal(path)
    print("ready", flush=True)

    def work(thread: int) -> None:
        for i in range(10**9):
            journal.append({"key": f"{run}-{thread}-{i}", "padding": "x" * (37 * i % 5000)})
            sys.stdout.write(f"{run}-{thread}-{i}\n")
            sys.stdout.flush()

    for thread in range(3):
        threading.Thread(target=work, args=(thread,)).start()


def charge_releases(path: Path, about: dict[str, Any], releases: list[Release]) -> None:
    """Charge releases to a ledger, one after the other."""
    ledger = DurableLedger(path, about=about)
    print("ready", flush=True)
    for i, release in enumerate(releases):
        ledger.charge(release)
        print(i, flush=True)


def write_vaults(path: Path, key: bytes) -> None:
    """Write one file again and again."""
    for i in range(1, 10**9):
        arrays = {"a": np.full(300_000, i), "b": np.full(3, i)}
        write_arrays(path, arrays, key, about={})
        print(i, flush=True)
