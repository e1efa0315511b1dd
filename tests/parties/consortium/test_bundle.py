"""All certificates at once: whatever is wrong with one of them, none is added."""

import json
import shutil
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import make_identity
from hedgerow.parties.consortium.bundle import (
    certificates_digest,
    check_digest,
    read_certificates,
    sign_bundle,
)
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import (
    Certificate,
    add_certificate,
    add_certificates,
    check_keys,
    make_keys,
)
from tests.parties.consortia import found, read_key, write_certificate


def refuses(code: Code, action) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return caught.value


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, PartyConfig]:
    made = found(tmp_path)
    for config in made.values():
        make_keys(config)
    return made


@pytest.fixture
def collected(parties: dict[str, PartyConfig], tmp_path: Path) -> Path:
    """A folder with the certificates of all members but the collector's own."""
    folder = tmp_path / "collected"
    folder.mkdir()
    for name, config in parties.items():
        if name != "alder":
            shutil.copy(config.identity.certificate, folder / f"{name}.pem")
    return folder


@pytest.fixture
def bundle(parties: dict[str, PartyConfig], collected: Path, tmp_path: Path) -> Path:
    path = tmp_path / "bundle.json"
    alder = parties["alder"]
    path.write_text(sign_bundle(alder, read_certificates(alder, collected)))
    return path


def take(config: PartyConfig, path: Path) -> None:
    """Add what a bundle or folder has, as the verb does."""
    certificates = read_certificates(config, path)
    add_certificates(config, [one for one in certificates.values() if one.name != config.name])


def added(config: PartyConfig) -> list[str]:
    return sorted(path.name for path in (config.folder / "members").iterdir())


def test_all_members_know_each_other_after_one_bundle(
    parties: dict[str, PartyConfig], bundle: Path
) -> None:
    digests = set()
    for config in parties.values():
        take(config, bundle)
        known = {name: Certificate.of(config, name) for name in parties}
        assert known == {name: check_keys(other) for name, other in parties.items()}
        digests.add(certificates_digest(config, known))
        # Once more is no harm.
        take(config, bundle)
    (digest,) = digests
    assert [len(group) for group in digest.split("-")] == [4] * 8


def test_a_folder_does_it_too(
    parties: dict[str, PartyConfig], collected: Path, bundle: Path
) -> None:
    shutil.copy(parties["alder"].identity.certificate, collected / "the-first-of-all.pem")
    # The same file twice, and other files, are no harm.
    shutil.copy(collected / "zoe.pem", collected / "zoe-again.pem")
    (collected / "README.txt").write_text("from all of you")
    zoe = parties["zoe"]
    assert read_certificates(zoe, collected) == read_certificates(zoe, bundle)
    take(zoe, collected)
    assert added(zoe) == [f"{name}.pem" for name in sorted(parties) if name != "zoe"]


def test_every_part_is_in_the_digest(parties: dict[str, PartyConfig], collected: Path) -> None:
    alder = parties["alder"]
    certificates = read_certificates(alder, collected)
    digest = certificates_digest(alder, certificates)
    check_digest(digest, digest)
    check_digest(digest, f" {digest.lower().replace('-', ' ')} ")
    other = write_certificate(collected / "zoe.pem", "zoe")
    changed = certificates | {"zoe": Certificate.parse(other.read_text(), "zoe")}
    swapped = alder.model_copy(update={"members": alder.members[::-1]})
    renamed = alder.model_copy(update={"consortium": "other"})
    others = {
        certificates_digest(alder, changed),
        certificates_digest(swapped, certificates),
        certificates_digest(renamed, certificates),
    }
    assert len(others | {digest}) == 4
    for wrong in (*others, digest[:-1], ""):
        refuses(Code.OTHER_DIGEST, lambda wrong=wrong: check_digest(digest, wrong))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(consortium="other"),
        lambda data: data["members"].pop(),
        lambda data: data["members"].reverse(),
        lambda data: data["members"][0].update(role="analyst"),
        lambda data: data["members"][5].update(name="eve"),
    ],
)
def test_another_list_of_members(parties: dict[str, PartyConfig], bundle: Path, change) -> None:
    data = json.loads(bundle.read_text())
    change(data)
    bundle.write_text(json.dumps(data))
    refuses(Code.OTHER_MEMBERS, lambda: take(parties["zoe"], bundle))
    assert added(parties["zoe"]) == []


def test_another_list_in_party_toml(parties: dict[str, PartyConfig], bundle: Path) -> None:
    zoe = parties["zoe"]
    path = zoe.folder / "party.toml"
    path.write_text(path.read_text().replace('name = "south"', 'name = "west"'))
    changed = PartyConfig.load(zoe.folder)
    error = refuses(Code.OTHER_MEMBERS, lambda: take(changed, bundle))
    assert error.found == "without west (owner) and with south (owner)"


def test_a_bundle_that_was_changed(
    parties: dict[str, PartyConfig], bundle: Path, tmp_path: Path
) -> None:
    zoe, good = parties["zoe"], bundle.read_text()

    def changed(change) -> None:
        data = json.loads(good)
        change(data)
        bundle.write_text(json.dumps(data))

    eve = write_certificate(tmp_path / "eve.pem", "birch").read_text()
    for change in (
        # Well formed each, and not what alder has signed.
        lambda data: data["members"][1].update(certificate=eve),
        lambda data: data.update(collector="birch"),
        lambda data: data.update(collector="eve"),
        lambda data: data.update(signature="00" * 64),
        lambda data: data.update(signature="what"),
        lambda data: data.update(format="hedgerow bundle 2"),
        lambda data: data.update(more=1),
        lambda data: data.pop("signature"),
        lambda data: data.update(members=7),
    ):
        changed(change)
        refuses(Code.BAD_BUNDLE, lambda: take(zoe, bundle))
    for text in ("", "{", good[:-40], "[]", '{"format": 1, "format": 2}'):
        bundle.write_text(text)
        refuses(Code.BAD_BUNDLE, lambda: take(zoe, bundle))
    changed(lambda data: data["members"][1].update(certificate=data["members"][2]["certificate"]))
    refuses(Code.WRONG_CERTIFICATE, lambda: take(zoe, bundle))
    changed(lambda data: data["members"].append(data["members"][0]))
    refuses(Code.TWO_CERTIFICATES, lambda: take(zoe, bundle))
    assert added(zoe) == []
    bundle.write_text(good)
    take(zoe, bundle)
    assert len(added(zoe)) == 5


def test_a_collector_that_exchanges_a_certificate_is_found_out(
    parties: dict[str, PartyConfig], collected: Path, bundle: Path, tmp_path: Path
) -> None:
    alder, birch, zoe = parties["alder"], parties["birch"], parties["zoe"]
    write_certificate(collected / "birch.pem", "birch")
    other = tmp_path / "other.json"
    other.write_text(sign_bundle(alder, read_certificates(alder, collected)))
    # By the member whose it is, at once; by the others, in the digest.
    refuses(Code.WRONG_CERTIFICATE, lambda: take(birch, other))
    told = certificates_digest(zoe, read_certificates(zoe, other))
    assert told != certificates_digest(birch, read_certificates(birch, bundle))


def test_what_is_wrong_with_a_folder(parties: dict[str, PartyConfig], collected: Path) -> None:
    alder, file = parties["alder"], collected / "zoe.pem"
    good = file.read_text()

    def refused(code: Code) -> HedgerowError:
        error = refuses(code, lambda: take(alder, collected))
        assert added(alder) == []
        return error

    write_certificate(collected / "zoe-2.pem", "zoe")
    assert "zoe" in refused(Code.TWO_CERTIFICATES).found
    (collected / "zoe-2.pem").unlink()
    file.unlink()
    assert refused(Code.MISSING_CERTIFICATE).found == "none of zoe"
    for days in ((-9, -1), (2, 9)):
        write_certificate(file, "zoe", days=days)
        refused(Code.CERTIFICATE_EXPIRED)
    write_certificate(file, "eve")
    refused(Code.UNKNOWN_MEMBER)
    write_certificate(file, "zoe", key=read_key(parties["birch"]))
    refused(Code.WRONG_CERTIFICATE)
    shutil.copy(parties["zoe"].identity.key, file)
    assert "private key" in refused(Code.WRONG_CERTIFICATE).found
    file.write_text(good)
    write_certificate(collected / "alder.pem", "alder")
    assert "another one" in refused(Code.WRONG_CERTIFICATE).found
    (collected / "alder.pem").unlink()
    take(alder, collected)
    assert len(added(alder)) == 5


def test_a_member_that_is_known_with_another_certificate(
    parties: dict[str, PartyConfig], bundle: Path, tmp_path: Path
) -> None:
    zoe = parties["zoe"]
    add_certificate(zoe, write_certificate(tmp_path / "old.pem", "birch"))
    error = refuses(Code.WRONG_CERTIFICATE, lambda: take(zoe, bundle))
    assert "--replace" in error.fix
    assert added(zoe) == ["birch.pem"]
    found_ = read_certificates(zoe, bundle)
    add_certificates(zoe, [found_[name] for name in parties if name != "zoe"], replace=True)
    assert Certificate.of(zoe, "birch") == check_keys(parties["birch"])


def test_a_disk_that_is_full_leaves_nothing_half_added(
    parties: dict[str, PartyConfig], bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoe, written = parties["zoe"], []
    target = zoe.certificate_file

    def file_of(name: str) -> Path:
        written.append(name)
        # The folder of one of the last is not there, as if the disk had refused its file.
        return target(name) if name != "south" else zoe.folder / "nowhere" / "south.pem"

    monkeypatch.setattr(type(zoe), "certificate_file", lambda self, name: file_of(name))
    refuses(Code.STATE_NOT_WRITTEN, lambda: take(zoe, bundle))
    assert written.index("alder") < written.index("south")
    assert added(zoe) == []


def test_without_a_key_of_its_own(tmp_path: Path) -> None:
    made = found(tmp_path)
    identity = make_identity(tmp_path, "birch")
    error = refuses(Code.MISSING_CERTIFICATE, lambda: take(made["zoe"], identity.key.parent))
    assert "hedgerow keys" in error.fix
