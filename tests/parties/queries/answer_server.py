"""One server of a town in a process of its own: ``python answer_server.py FOLDER ROWS``."""

import sys
from pathlib import Path

from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries.answering import QueryService
from hedgerow.parties.queries.waiting import RoomLimits
from hedgerow.parties.roles.catalogue import Catalogue
from hedgerow.parties.wire.handlers import declared_verbs
from hedgerow.parties.wire.service import Service


def main(folder: Path, rows: int) -> None:
    config = PartyConfig.load(folder)
    policy = Policy.load(folder).model_copy(
        update={"queries_per_model": rows, "queries_per_analyst": rows}
    )
    key = operator_key(folder)
    port = RunPort(config.me.host, config.me.run_port)
    limits = RoomLimits(poll=5.0, heartbeat=0.2)
    answering = QueryService(config, policy, key, port, limits=limits)
    shown = Catalogue(config, policy, key, answering.library)
    with (
        port,
        Service(
            config.identity,
            known_callers(config),
            declared_verbs(answering) | declared_verbs(shown),
            host=config.me.host,
            port=config.me.port,
        ),
    ):
        answering.start()
        print("up", flush=True)
        sys.stdin.readline()
        answering.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
