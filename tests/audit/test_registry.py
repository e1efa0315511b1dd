import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

from hedgerow.audit import registry
from hedgerow.audit.engine import Target
from hedgerow.errors import Code, HedgerowError


def make(name: str, **more) -> Target:
    return Target(name, lambda value, runs, source: np.zeros(runs, int), [("", 0, 1)], 1.0, **more)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry.load()
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    return None


def test_built_in_targets_are_there() -> None:
    names = {target.name for target in registry.targets()}
    assert {"two-sided-geometric@1", "noisy-max@3", "broken/halved-noise"} <= names
    assert registry.lookup("noisy-max@3").claimed == 3.0


@pytest.mark.usefixtures("clean")
def test_register() -> None:
    before = registry.targets()

    @registry.register
    def mine() -> list[Target]:
        return [make("mine/a"), make("mine/b", kind="protocol", sound=False)]

    registry.register(mine)
    names = [target.name for target in registry.targets()]
    assert names == [target.name for target in before] + ["mine/a", "mine/b"]
    assert registry.lookup("mine/a").name == "mine/a"
    protocols = [target.name for target in before if target.kind == "protocol"]
    found = [target.name for target in registry.targets(kind="protocol")]
    assert found == [*protocols, "mine/b"]
    assert "mine/a" not in {target.name for target in registry.targets(sound=False)}


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


@pytest.mark.usefixtures("clean")
def test_load_imports_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "room_above.py").write_text(
        "from hedgerow.audit import Target, register\n"
        "@register\n"
        "def above():\n"
        "    return [Target('above', None, [], 1.0)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "room_above" not in sys.modules
    registry.load(["room_above"])
    assert isinstance(sys.modules.pop("room_above"), types.ModuleType)
    assert registry.lookup("above").claimed == 1.0
