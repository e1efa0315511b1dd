"""Small runs of DP-TopDown on secret counts, for several test files."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from hedgerow.crypto.sealed import SealingKey
from hedgerow.net.mesh import Mesh, MeshNetwork
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import SecureOwner
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.server import SecureServers
from hedgerow.protocols.topdown.wire import SERVER_NAMES
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.tree import Tree

CAPACITY = 300
KEYS = {server: SealingKey(bytes([server + 1]) * 32) for server in range(3)}
PUBLIC_KEYS = [KEYS[server].public for server in range(3)]


def domain_of(classes: int = 3) -> Domain:
    attributes = (
        Attribute(name="age", kind="numeric", bounds=(0.0, 8.0), bins=5),
        Attribute(name="colour", kind="categorical", categories=("r", "g", "b")),
        Attribute(name="old", kind="categorical", categories=("no", "yes")),
    )
    target = Target(name="y", classes=tuple(f"c{i}" for i in range(classes)))
    return Domain(attributes=attributes, target=target, capacity=CAPACITY)


def plan_of(**options: Any) -> TopDownPlan:
    known = {"method": "secure-counts", "epsilon": 4.0, "max_depth": 3}
    n_owners = options.pop("n_owners", 2)
    return TopDownOptions(**(known | options)).plan(domain_of(), n_owners=n_owners)


def table_of(seed: int, n: int = 60) -> Encoded:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    age = np.minimum(label + rng.integers(0, 3, n), 4)
    colour = np.minimum(label + (rng.random(n) < 0.2), 2)
    bins = np.stack([age, colour, rng.integers(0, 2, n)], axis=1).astype(np.uint8)
    present = np.ones(n, dtype=np.bool_)
    return Encoded(domain_of(), np.asfortranarray(bins), label.astype(np.uint8), present)


def joined(tables: Mapping[str, Encoded]) -> Encoded:
    """The union of the owners' tables."""
    each = list(tables.values())
    bins = np.asfortranarray(np.concatenate([one.bins for one in each]))
    target = np.concatenate([one.target for one in each])
    return Encoded(domain_of(), bins, target, np.ones(len(bins), dtype=np.bool_))


def owner_of(plan: TopDownPlan, seed: int, name: str, n: int = 60) -> SecureOwner:
    source = NoiseSource.insecure_seeded(seed)
    return SecureOwner(table_of(seed, n), plan, name=name, source=source, server_keys=PUBLIC_KEYS)


def owners_of(plan: TopDownPlan, n: int = 60, first: int = 0) -> dict[str, SecureOwner]:
    names = ["amsterdam", "berlin", "cordoba"][: plan.n_owners]
    return {name: owner_of(plan, first + i, name, n) for i, name in enumerate(names)}


def servers_of(plan: TopDownPlan, network: Network | None = None, **options: Any) -> SecureServers:
    here = Simulator(3) if network is None else network
    return SecureServers(plan, KEYS, lambda: here, **({"seed": 1} | options))


def asked(plan: TopDownPlan, owners: Mapping[str, SecureOwner]) -> tuple[Coordinator, dict]:
    """Let the owners answer the first question; return what the servers are asked then."""
    coordinator = Coordinator(plan, list(owners))
    for name, ask in coordinator.asks().items():
        coordinator.hear(name, owners[name].answer(ask))
    asks = coordinator.asks()
    assert set(asks) == set(SERVER_NAMES)
    return coordinator, asks


def answer_all(
    coordinator: Coordinator, owners: Mapping[str, SecureOwner], servers: SecureServers
) -> None:
    """Answer the questions of one round."""
    asks = coordinator.asks()
    here = set(asks) == set(SERVER_NAMES)
    answers = servers.answers(asks) if here else {n: owners[n].answer(a) for n, a in asks.items()}
    for name, answer in answers.items():
        coordinator.hear(name, answer)


def grow_secure(
    plan: TopDownPlan,
    owners: Mapping[str, SecureOwner],
    servers: SecureServers,
    coordinator: Coordinator | None = None,
) -> Tree:
    """Answer all questions without a network between coordinator, owners and servers."""
    coordinator = coordinator or Coordinator(plan, list(owners))
    while coordinator.asks():
        answer_all(coordinator, owners, servers)
    return coordinator.tree()


class Line(MeshNetwork):
    """A line that breaks without a word: whoever waits at its other end does so in vain."""

    def _end(self, reason: int | None) -> None:
        self._closed = True


def meeting(patience: float = 20.0) -> Callable[[int], Callable[[], Network]]:
    """Networks of three servers in threads; a new meeting for every attempt."""
    mesh = Mesh(3, timeout=patience)
    return lambda server: lambda: Line(mesh, [server])


def each_apart(servers: list[SecureServers], asks: Mapping[str, bytes]) -> list[Any]:
    """Ask servers that live apart; errors are returned in place of answers."""

    def one(server: int) -> Any:
        try:
            name = SERVER_NAMES[server]
            return servers[server].answers({name: asks[name]})[name]
        except Exception as error:
            return error

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, range(3)))
