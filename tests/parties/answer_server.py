"""One server of a town in a process of its own: ``python answer_server.py FOLDER ROWS``."""

import sys
from pathlib import Path

from hedgerow.parties.answering import Answering
from hedgerow.parties.catalogue import Catalogue
from hedgerow.parties.config import PartyConfig
from hedgerow.parties.members import known_callers
from hedgerow.parties.policy import Policy
from hedgerow.parties.service import Service
from hedgerow.parties.state_key import operator_key
from hedgerow.parties.waiting import RoomLimits


def main(folder: Path, rows: int) -> None:
    config = PartyConfig.load(folder)
    policy = Policy.load(folder).model_copy(
        update={"queries_per_model": rows, "queries_per_analyst": rows}
    )
    key = operator_key(folder)
    answering = Answering(config, policy, key, limits=RoomLimits(poll=5.0, heartbeat=0.2))
    shown = Catalogue(config.state, key, answering.library, policy)
    with Service(
        config.identity,
        known_callers(config),
        answering.verbs | shown.verbs,
        host=config.me.host,
        port=config.me.port,
    ):
        answering.start()
        print("up", flush=True)
        sys.stdin.readline()
        answering.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
