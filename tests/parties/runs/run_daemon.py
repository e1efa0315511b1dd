"""Servers as the processes of tests: reduced to uploads and runs, or as they are served."""

import logging
import os
import signal
import threading
from pathlib import Path

from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.daemon import serve
from hedgerow.parties.runs.child import Forker
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store.uploads import UploadVerbs
from hedgerow.parties.wire.handlers import declared_verbs
from hedgerow.parties.wire.logs import JsonLines
from hedgerow.parties.wire.service import Service


def serve_runs(folder: Path, log: Path) -> None:
    """Take uploads and jobs; standard error, the worker's too, goes behind the log."""
    forker = Forker().start()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 2)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    config = PartyConfig.load(folder)
    policy = Policy.load(folder)
    me = config.me
    port = RunPort(me.host, me.run_port)
    manager = RunManager(config, policy, port, poll=0.2, forker=forker)
    uploads = UploadVerbs(config, policy, operator_key(config.folder), manager.store)
    verbs = declared_verbs(uploads) | declared_verbs(RunVerbs(manager))
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    with port, Service(config.identity, known_callers(config), verbs, host=me.host, port=me.port):
        manager.start()
        done.wait()
        manager.stop()


def serve_all(folder: Path) -> None:
    """Be a server as ``hedgerow serve`` is."""
    serve(PartyConfig.load(folder), Policy.load(folder))
