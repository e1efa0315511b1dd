"""Three servers that answer queries over real TLS on loopback, in the threads of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.net.port import RunPort
from hedgerow.net.simulator import Simulator
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.members import add_certificate, known_callers, make_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries.answering import QueryService
from hedgerow.parties.queries.asking import Analyst
from hedgerow.parties.queries.waiting import RoomLimits
from hedgerow.parties.roles.catalogue import Catalogue
from hedgerow.parties.store.models import ModelManifest, write_model
from hedgerow.parties.wire.handlers import declared_verbs
from hedgerow.parties.wire.service import Service
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.run import rehearse
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode, pad
from tests.parties.free_ports import free_ports
from tests.protocols.sharing.shared_tables import shared_table

SERVERS = ["alder", "birch", "cedar"]
SIZES = (3, 4, 2, 5)
N = 120
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(size)))
        for i, size in enumerate(SIZES)
    ),
    target=Target(name="y", classes=("no", "yes", "perhaps")),
    capacity=N,
)
QUICK = RoomLimits(poll=3.0, heartbeat=0.1, idle=20.0)


def table(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    number = (rows[:, 0] + rows[:, 1] * rows[:, 2] + rng.integers(0, 2, n)) % 3
    return rows, np.array(DOMAIN.target.classes)[number]


def encoded() -> Encoded:
    rows, y = table()
    return encode(rows, DOMAIN, y)


class Town:
    """A consortium with some analysts, and models at its servers.

    Attributes
    ----------
    up : dict of int to (Service, QueryService)
        Servers that run.
    """

    def __init__(self, folder: Path, analysts: int = 1, **policy: Any) -> None:
        names = [f"ann{i}" for i in range(analysts)]
        members = list_members(SERVERS, ["north"], names, first_port=free_ports())
        made = found_consortium(folder, "wards", members, {"patients": 3.0})
        self.configs = {path.name: PartyConfig.load(path) for path in made}
        self.analysts, self.up = names, {}
        self.ports: dict[int, RunPort] = {}
        for config in self.configs.values():
            config.timeouts.__dict__.update(connect=5.0, step=10.0)
            make_keys(config)
        for server in SERVERS:
            for name in [*SERVERS, *names, "north"]:
                self.introduce(server, name)
                self.introduce(name, server)
        base = {
            "largest_epsilon_per_job": 10.0,
            "allow_exact": True,
            "allowed_protocols": ("hidden-tree", "open-tree"),
            "allowed_analysts": tuple(names),
            "queries_per_model": 10**6,
            "queries_per_analyst": 10**6,
        }
        self.policies = [Policy(**base | policy) for _ in SERVERS]

    def introduce(self, to: str, whom: str) -> None:
        config = self.configs[to]
        if to != whom and not config.certificate_file(whom).exists():
            add_certificate(config, self.configs[whom].identity.certificate)

    def train(self, name: str, analysts: list[str] | None = None, **options: Any) -> HiddenPlan:
        """Train a model in this process and give every server its shares."""
        plan = plan_hidden(DOMAIN, **{"noise": "none", "depth": 3, "branching": "wary"} | options)
        ledger = Ledger(domain=DOMAIN)
        leakage = Leakage(plan.openings(), ledger=ledger)
        engine = ReplicatedEngine(Simulator(3), leakage)
        slots = pad(encoded(), plan.n_slots, entropy=np.random.default_rng(1).bytes)
        uploads = horizontal_uploads(plan.layout, [plan.n_slots])
        shared = shared_table(engine, plan.layout, plan.ring, uploads, {3: slots})
        shares = train_hidden(shared, plan, ledger).shares()
        for number, server in enumerate(SERVERS):
            config = self.configs[server]
            manifest = ModelManifest(
                name=name,
                protocol="hidden-tree",
                server=number,
                plan=plan.to_dict(),
                run=f"{name}-run",
                job="0" * 64,
                tag="1" * 32,
                analysts=tuple(self.analysts if analysts is None else analysts),
            )
            own = {key: array[number : number + 1] for key, array in shares.items()}
            write_model(
                config.state,
                operator_key(config.folder),
                manifest,
                own,
                ledger=ledger.to_json(),
                leakage=leakage.to_json(),
            )
        return plan

    def publish(self, name: str) -> dict[str, Any]:
        """Give every server one published tree; return what it publishes."""
        plan = plan_hidden(DOMAIN, noise="none", depth=1).opened()
        ledger, made = plan.ledger(), rehearse("open-tree", plan)
        for number, server in enumerate(SERVERS):
            config = self.configs[server]
            manifest = ModelManifest(
                name=name,
                protocol="open-tree",
                server=number,
                plan=plan.to_dict(),
                run=f"{name}-run",
                job="0" * 64,
                tag="1" * 32,
            )
            write_model(
                config.state,
                operator_key(config.folder),
                manifest,
                {},
                ledger=ledger.to_json(),
                leakage=Leakage([], ledger=ledger).to_json(),
                tree=made,
            )
        return made

    def start(self, number: int, limits: RoomLimits = QUICK) -> None:
        config = self.configs[SERVERS[number]]
        key = operator_key(config.folder)
        port = RunPort(config.me.host, config.me.run_port)
        answering = QueryService(config, self.policies[number], key, port, limits=limits)
        shown = Catalogue(config, self.policies[number], key, answering.library)
        service = Service(
            config.identity,
            known_callers(config),
            declared_verbs(answering) | declared_verbs(shown),
            host=config.me.host,
            port=config.me.port,
        ).start()
        answering.start()
        self.up[number] = (service, answering)
        self.ports[number] = port

    def stop(self, number: int) -> None:
        service, answering = self.up.pop(number)
        answering.stop()
        service.stop(5.0)
        self.ports.pop(number).close()

    @contextmanager
    def open(self, limits: RoomLimits = QUICK) -> Iterator[Town]:
        try:
            for number in range(3):
                self.start(number, limits)
            yield self
        finally:
            for number in list(self.up):
                self.stop(number)

    def analyst(self, number: int = 0, **options: Any) -> Analyst:
        return Analyst(self.configs[self.analysts[number]], **{"timeout": 30.0} | options)

    def log(self, number: int, model: str) -> Any:
        return self.up[number][1].library.book(model).log
