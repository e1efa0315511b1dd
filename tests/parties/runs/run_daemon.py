"""A server reduced to uploads and runs, as a process: ``python run_daemon.py FOLDER``."""

import logging
import signal
import sys
import threading

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import run_verbs
from hedgerow.parties.store.uploads import upload_verbs
from hedgerow.parties.wire.logs import JsonLines
from hedgerow.parties.wire.service import Service


def main(folder: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
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


if __name__ == "__main__":
    main(sys.argv[1])
