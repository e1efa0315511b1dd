"""A new consortium: files that load, explain themselves and hold no secrets."""

import re
import stat
import tomllib
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig, Timeouts
from hedgerow.parties.consortium.founding import (
    found_consortium,
    list_members,
    party_toml,
    policy_toml,
)
from hedgerow.parties.consortium.policy import Lifetime, Policy
from tests.parties.consortia import ANALYSTS, OWNERS, SERVERS, found


def refuses(code: Code, action) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return caught.value


def test_every_party_gets_a_closed_folder(tmp_path: Path) -> None:
    parties = found(tmp_path)
    assert list(parties) == [*SERVERS, *OWNERS, *ANALYSTS]
    for path in (tmp_path / "wards").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    for name, config in parties.items():
        assert (config.consortium, config.name) == ("wards", name)
        assert config.timeouts == Timeouts()
        assert sorted(path.name for path in config.folder.iterdir()) == [
            "README.txt",
            "keys",
            "members",
            "party.toml",
            "policy.toml",
        ]
        text = (config.folder / "README.txt").read_text()
        assert "hedgerow keys" in text
        assert ("state.key" in text) == (config.role == "server")


def test_defaults_are_safe(tmp_path: Path) -> None:
    for config in found(tmp_path).values():
        policy = Policy.load(config.folder)
        assert policy.largest_epsilon_per_job == 1.0
        assert not policy.allow_exact
        assert "open-tree" not in policy.allowed_protocols
        assert policy.allowed_analysts == ("zoe",)
        assert policy.allowed_posters == ("north", "south")
        assert policy.populations == {"patients": Lifetime(epsilon=3.0, delta=1e-6)}
        assert {server.host for server in config.servers} == {"127.0.0.1"}
        assert len({port for server in config.servers for port in server.ports}) == 6


def test_every_option_is_explained(tmp_path: Path) -> None:
    folder = found(tmp_path)["alder"].folder
    for name in ("party.toml", "policy.toml"):
        text = (folder / name).read_text()
        comments = " ".join(re.findall(r"#.*", text))
        for key, value in tomllib.loads(text).items():
            lines = text.splitlines()
            at = next(i for i, line in enumerate(lines) if re.match(rf"\[*{key}\b", line))
            for inner in value if key == "timeouts" else ():
                assert re.search(rf"^{inner} = .*# \w", text, re.M), inner
            above = [line for line in reversed(lines[:at]) if not re.match(r"\w", line)]
            assert above[0].startswith("#"), key
        for key in ("role", "host", "port", "run_port") * (name == "party.toml"):
            assert re.search(rf"# {key}  ", comments), key


def test_texts_are_read_back(tmp_path: Path) -> None:
    config = found(tmp_path, hosts=["a", "b", "c"], first_port=9000)["birch"]
    changes = {"listen": "::", "timeouts": Timeouts(connect=0.5, rejoin=86400)}
    config = config.model_copy(update=changes)
    assert PartyConfig.model_validate(tomllib.loads(party_toml(config))) == config
    policy = Policy(
        largest_epsilon_per_job=0.1,
        largest_delta_per_job=0,
        allow_exact=True,
        allowed_protocols=["open-tree"],
        allowed_analysts=[],
        queries_per_model=10**9,
        queries_per_analyst=0,
        populations={"2024": 1 / 3, "a-b": float("inf"), "c": {"epsilon": 1.0, "delta": 0.25}},
    )
    for posters in (None, (), ("north", "zoe")):
        policy = policy.model_copy(update={"allowed_posters": posters})
        assert Policy.model_validate(tomllib.loads(policy_toml(policy))) == policy


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = found(tmp_path)["alder"].folder
    (folder / "party.toml").write_text("mine")
    refuses(Code.FOLDER_EXISTS, lambda: found(tmp_path))
    assert (folder / "party.toml").read_text() == "mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "wards").symlink_to(tmp_path / "nowhere")
    refuses(Code.FOLDER_EXISTS, lambda: found(tmp_path / "other"))
    assert not (tmp_path / "nowhere").exists()


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    def make(name="wards", populations=None, servers=SERVERS, owners=OWNERS, **options):
        members = list_members(servers, owners, **options)
        return found_consortium(tmp_path, name, members, populations)

    refuses(Code.BAD_NAME, lambda: make("../wards"))
    refuses(Code.BAD_NAME, lambda: make(owners=["../north"]))
    refuses(Code.BAD_NAME, lambda: make(owners=['x"\nname = "y']))
    refuses(Code.BAD_NAME, lambda: make(populations={"a b": 1.0}))
    refuses(Code.BAD_POLICY_FILE, lambda: make(populations={"a": float("inf")}))
    assert (
        "2: alder, birch" in refuses(Code.BAD_PARTY_FILE, lambda: make(servers=SERVERS[:2])).found
    )
    for bad in (
        {"servers": [*SERVERS, "dogwood"]},
        {"servers": ["alder", "alder", "birch"]},
        {"owners": ["alder"]},
        {"analysts": ["north"]},
        {"hosts": ["a", "b"]},
        {"hosts": ["a", "b", 'c"\nx = 1']},
        {"first_port": 0},
        {"first_port": 65520},
    ):
        refuses(Code.BAD_PARTY_FILE, lambda bad=bad: make(**bad))
    refuses(Code.UNSAFE_FOLDER, lambda: found(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("servers", [(), SERVERS])
def test_the_last_steps_are_those_of_the_consortium(tmp_path: Path, servers) -> None:
    members = list_members(servers, ["north"], coordinator="delta", sites=["club", "office"])
    folders = found_consortium(tmp_path, "wards", members)
    texts = {folder.name: (folder / "README.txt").read_text() for folder in folders}
    keeps = {name for name, text in texts.items() if "hedgerow upload --here" in text}
    assert keeps == {"north", "club", "office"}
    assert ("hedgerow upload --help" in texts["north"]) == bool(servers)
    serves = {name for name, text in texts.items() if "hedgerow serve" in text}
    assert serves == {*servers, "north", "delta", "club", "office"}
    asks = {name for name, text in texts.items() if "hedgerow query" in text}
    assert asks == {"club", "office"}
    studied = found_consortium(tmp_path, "study", members, study=True)
    for folder in studied:
        text = (folder / "README.txt").read_text()
        # What was done for the operator is not asked for once more.
        assert "For study alone" in text
        assert not re.search(r"hedgerow (keys|consortium (add|bundle))", text)
        assert "hedgerow consortium check" in text
        verbs = re.findall(r"^\d+\. .*(hedgerow \S+)", text, re.M)
        assert (
            verbs == re.findall(r"^\d+\. .*(hedgerow \S+)", texts[folder.name], re.M)[-len(verbs) :]
        )
        texts[f"{folder.name}, studied"] = text
    for text in texts.values():
        numbers = [int(n) for n in re.findall(r"^(\d+)\. ", text, re.M)]
        assert numbers == list(range(1, len(numbers) + 1))


def test_without_a_coordinator_nobody_is_sent_to_one(tmp_path: Path) -> None:
    for config in found(tmp_path).values():
        assert "--here" not in (config.folder / "README.txt").read_text()
