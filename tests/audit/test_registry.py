import numpy as np
import pytest

from hedgerow.audit import registry
from hedgerow.audit.engine import AuditTarget
from hedgerow.errors import Code, HedgerowError


def make(name: str, **more) -> AuditTarget:
    return AuditTarget(
        name, lambda value, runs, source: np.zeros(runs, int), [("", 0, 1)], 1.0, **more
    )


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def test_built_in_targets_are_there() -> None:
    names = {target.name for target in registry.targets()}
    assert {"two-sided-geometric@1", "noisy-max@3", "broken/halved-noise"} <= names
    assert registry.lookup("noisy-max@3").claimed == 3.0


@pytest.mark.usefixtures("clean")
def test_register() -> None:
    before = registry.targets()

    @registry.register
    def mine() -> list[AuditTarget]:
        return [make("mine/a"), make("mine/b", kind="protocol", sound=False)]

    registry.register(mine)
    names = [target.name for target in registry.targets()]
    assert names == [target.name for target in before] + ["mine/a", "mine/b"]
    broken = [
        target.name for target in before if (target.kind, target.sound) == ("protocol", False)
    ]
    found = [target.name for target in registry.targets(kind="protocol", sound=False)]
    assert found == [*broken, "mine/b"]


@pytest.mark.usefixtures("clean")
def test_one_name_one_target() -> None:
    registry.register(lambda: [make("twice"), make("twice")])
    with pytest.raises(HedgerowError, match="'twice'") as caught:
        registry.targets()
    assert caught.value.code is Code.BAD_AUDIT


def test_unknown_name() -> None:
    with pytest.raises(HedgerowError, match="noisy-max@1") as caught:
        registry.lookup("noisy-maximum")
    assert caught.value.code is Code.UNKNOWN_TARGET
    assert caught.value.found == "'noisy-maximum'"
