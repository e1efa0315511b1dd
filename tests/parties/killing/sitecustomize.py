"""Put on the path of a party's processes: notes every commit point, and strikes at one when told.

``strikes`` in the folder of a party lists what happens, one after the other: ``[point, when,
what]``, with ``before`` or ``after`` a commit. What is ``kill`` ends all processes of the party;
for anything else ``reached`` is written there, and the process goes on when that is taken away.
``points`` gets a line for each commit.
"""

import json
import os
import signal
import time
from contextlib import contextmanager

from hedgerow.parties.store.database import Store

_transaction = Store.transaction
# The daemon: its workers are forked from it.
_daemon = os.getpid()


@contextmanager
def _striking(self, name, *arguments, **options):
    folder = self.state.root.parent
    with _transaction(self, name, *arguments, **options) as made:
        yield made
        _strike(folder, name, "before")
    with open(folder / "points", "a", encoding="utf-8") as file:
        file.write(f"{name}\n")
    _strike(folder, name, "after")


def _strike(folder, *place):
    path, taken = folder / "strikes", folder / "strikes.taken"
    try:
        (point, when, what), *others = json.loads(path.read_text())
        if (point, when) != place:
            return
        # Of several processes or threads that come here at once, one.
        os.rename(path, taken)
    except (OSError, ValueError):
        return
    if others:
        taken.write_text(json.dumps(others))
        os.rename(taken, path)
    if what == "kill":
        for pid in (_daemon, os.getpid()):
            os.kill(pid, signal.SIGKILL)
    (folder / "reached").write_text(what)
    while (folder / "reached").exists():
        time.sleep(0.01)


Store.transaction = _striking
