"""A server reduced to uploads and runs, in a process of its own that can be killed.

The processes are forks of one that has loaded the package, so that a test does not wait for that
once for every server that it starts.
"""

import logging
import multiprocessing
import os
import signal
import threading
from pathlib import Path

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import run_verbs
from hedgerow.parties.store.uploads import upload_verbs
from hedgerow.parties.wire.logs import JsonLines
from hedgerow.parties.wire.service import Service

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__])


def start_daemon(folder: Path, log: Path) -> multiprocessing.process.BaseProcess:
    """Start a server; what it and its worker write to standard error goes behind the log."""
    process = _forks.Process(target=_serve, args=(folder, log))
    process.start()
    return process


def _serve(folder: Path, log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 2)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    config = PartyConfig.load(folder)
    policy = Policy.load(folder)
    manager = RunManager(config, policy, poll=0.2)
    verbs = upload_verbs(config, policy, operator_key(config.folder)) | run_verbs(manager)
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    me = config.me
    with Service(config.identity, known_callers(config), verbs, host=me.host, port=me.port):
        manager.start()
        done.wait()
        manager.stop()
