"""Three servers that take uploads over real TLS, and tables for owners, for tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.uploads import UploadVerbs
from hedgerow.parties.wire.handlers import ServiceLimits, Verb, declared_verbs
from hedgerow.parties.wire.service import Service
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.secret import Secret, SecretBits
from hedgerow.tables import Attribute, Domain, Target
from tests.parties.consortia import found, introduce
from tests.parties.free_ports import free_ports

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=5),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
        Attribute(name="sex", kind="categorical", categories=("f", "m")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=100,
)
SERVERS = ("alder", "birch", "cedar")


def consortium(folder: Path) -> dict[str, PartyConfig]:
    parties = found(folder, first_port=free_ports())
    introduce(parties)
    return parties


def verbs(config: PartyConfig) -> dict[str, Verb]:
    return declared_verbs(
        UploadVerbs(
            config,
            Policy.load(config.folder),
            operator_key(config.folder),
            RunStore(config.state),
        )
    )


@contextmanager
def serving(
    parties: dict[str, PartyConfig],
    verbs_of: Callable[[PartyConfig], dict[str, Verb]] = verbs,
    names: tuple[str, ...] = SERVERS,
    **limits: float,
) -> Iterator[dict[str, Service]]:
    """Run services of the servers; what they keep is read from the disk at each start."""
    with ExitStack() as stack:
        services = {}
        for name in names:
            config = parties[name]
            service = Service(
                config.identity,
                known_callers(config),
                verbs_of(config),
                host=config.me.host,
                port=config.me.port,
                limits=ServiceLimits(**limits),
            )
            services[name] = stack.enter_context(service)
        yield services


def people(n: int = 60, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 3, n)
    ill = (ward + rng.integers(0, 2, n)) > 1
    return pa.table(
        {
            "id": np.arange(1000, 1000 + n),
            "age": rng.integers(0, 101, n),
            "ward": np.array(["a", "b", "c"])[ward],
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "ill": np.array(["no", "yes"])[ill.astype(int)],
        }
    )


def write_csv(path: Path, table: pa.Table) -> Path:
    pa.csv.write_csv(table, path)
    return path


def reveal(x: Secret | SecretBits) -> np.ndarray:
    """Open anything, under a declaration made for it."""
    engine, before = x.engine, x.engine.leakage
    engine.leakage = Leakage([Opening("seen", "server", x.shape, independent="a test looks")])
    try:
        opened = engine.open(x, "seen", "server")
    finally:
        engine.leakage = before
    assert opened is not None
    return opened
