"""A new key, vouched for by the old one: both are known for a while, and nothing is cut off."""

import datetime
import threading
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import make_identity
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.bundle import read_certificates, sign_bundle
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import (
    SOON,
    Certificate,
    add_certificate,
    check_keys,
    endings,
    known_callers,
    make_keys,
)
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.reach import check_consortium
from hedgerow.parties.consortium.renewal import renew_keys, switch_keys
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.wire.client import call_member
from tests.parties.consortia import SERVERS, found, introduce, read_key, write_certificate
from tests.parties.free_ports import free_ports
from tests.parties.queries.answer_towns import Town, table


def refuses(code: Code, action) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return caught.value


@pytest.fixture
def parties(tmp_path: Path) -> dict[str, PartyConfig]:
    made = found(tmp_path, first_port=free_ports())
    introduce(made)
    return made


def send(renewing: PartyConfig, *others: PartyConfig) -> None:
    """Add the next certificate of a party at others."""
    for config in others:
        add_certificate(config, renewing.next_identity.certificate)


def test_members_take_a_renewal_without_a_call(parties: dict[str, PartyConfig]) -> None:
    alder, birch = parties["alder"], parties["birch"]
    old = check_keys(alder)
    new = renew_keys(alder, days=50)
    assert list(new.line()) == [new, old]
    assert new.public_key != old.public_key
    assert check_keys(alder) == old
    send(alder, birch)
    assert Certificate.of(birch, "alder") == new
    known = [pem for pem, caller in known_callers(birch).items() if caller.name == "alder"]
    assert known == [new.text, old.text]
    # An old one that comes late changes nothing, and neither does the same once more.
    add_certificate(birch, alder.identity.certificate)
    send(alder, birch)
    assert Certificate.of(birch, "alder") == new
    assert switch_keys(alder, ask=False) == check_keys(alder) == new
    assert not alder.next_identity.key.exists()
    assert alder.identity.key.stat().st_mode & 0o777 == 0o600
    # And once more: who missed the first takes both at once.
    third = renew_keys(alder)
    assert list(third.line()) == [third, new, old]
    send(alder, birch, parties["cedar"])
    assert Certificate.of(parties["cedar"], "alder") == Certificate.of(birch, "alder") == third


def test_only_the_old_key_vouches(
    parties: dict[str, PartyConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alder, birch = parties["alder"], parties["birch"]
    old = check_keys(alder)
    folder = tmp_path / "made"
    folder.mkdir()

    def refused(code: Code, text: str) -> HedgerowError:
        path = folder / "sent.pem"
        path.write_text(text)
        error = refuses(code, lambda: add_certificate(birch, path))
        assert Certificate.of(birch, "alder") == old
        return error

    # By a key of somebody else, whatever certificates follow.
    forged = make_identity(folder, "alder", stem="forged", renews=parties["zoe"].identity)
    own = Certificate.parse(forged.pem.partition(parties["zoe"].identity.pem)[0], "it").text
    refused(Code.WRONG_CERTIFICATE, forged.pem)
    refused(Code.WRONG_CERTIFICATE, own + old.text)
    assert "--replace" in refused(Code.WRONG_CERTIFICATE, own).fix
    # By the right key for another name.
    other = make_identity(folder, "cedar", stem="other", renews=alder.identity)
    refused(Code.WRONG_CERTIFICATE, other.pem)
    # Two renewals of one certificate: the second needs a call.
    second = make_identity(folder, "alder", stem="second", renews=alder.identity)
    new = renew_keys(alder)
    # In the wrong order, and more than anybody renews.
    refused(Code.WRONG_CERTIFICATE, old.text + new.text)
    refused(Code.WRONG_CERTIFICATE, new.text * 65)
    send(alder, birch)
    path = folder / "sent.pem"
    path.write_text(second.pem)
    refuses(Code.WRONG_CERTIFICATE, lambda: add_certificate(birch, path))
    assert Certificate.of(birch, "alder") == new
    add_certificate(birch, path, replace=True)
    assert Certificate.of(birch, "alder").earlier == old


def test_a_key_whose_time_is_over_vouches_for_nothing(
    parties: dict[str, PartyConfig], tmp_path: Path
) -> None:
    alder, birch = parties["alder"], parties["birch"]
    write_certificate(alder.identity.certificate, "alder", key=read_key(alder), days=(-9, -1))
    refuses(Code.CERTIFICATE_EXPIRED, lambda: renew_keys(alder))
    birch.certificate_file("alder").write_text(alder.identity.pem)
    new = make_identity(tmp_path, "alder", renews=alder.identity)
    error = refuses(Code.CERTIFICATE_EXPIRED, lambda: add_certificate(birch, new.certificate))
    assert "--replace" in error.fix
    add_certificate(birch, new.certificate, replace=True)
    # An old one that is over does no harm beside a new one.
    assert len(list(Certificate.of(birch, "alder").line())) == 2


def test_no_key_of_another_member_in_an_earlier_certificate(
    parties: dict[str, PartyConfig], tmp_path: Path
) -> None:
    alder, birch, cedar = parties["alder"], parties["birch"], parties["cedar"]
    # Cedar shows what was alder's as its own past.
    write_certificate(cedar.identity.certificate, "cedar", key=read_key(alder))
    cedar.identity.key.write_bytes(alder.identity.key.read_bytes())
    renew_keys(cedar)
    birch.certificate_file("cedar").unlink()
    error = refuses(Code.WRONG_CERTIFICATE, lambda: send(cedar, birch))
    assert "alder" in error.found


def test_bundles_have_all_of_it(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    alder, zoe = parties["alder"], parties["zoe"]
    new = renew_keys(alder)
    switch_keys(alder, ask=False)
    sent = tmp_path / "bundle.json"
    sent.write_text(sign_bundle(alder, read_certificates(alder, alder.folder / "members")))
    assert read_certificates(zoe, sent)["alder"] == new
    # A party that has renewed since it was collected still takes the bundle.
    renew_keys(zoe)
    switch_keys(zoe, ask=False)
    assert read_certificates(zoe, sent)["zoe"] == check_keys(zoe).earlier


def meet(parties: dict[str, PartyConfig], seconds: float = 30.0) -> list[object]:
    """Let the three servers meet and say something; what each has heard."""
    ends: list[object] = [None] * 3

    def attend(number: int) -> None:
        config = parties[SERVERS[number]]
        try:
            with TLSNetwork(
                number,
                config.server_endpoints,
                config.identity,
                session=bytes(16),
                program=b"test",
                timeout=20.0,
                meeting_timeout=seconds,
            ):
                ends[number] = "met"
        except HedgerowError as error:
            ends[number] = error.code

    threads = [threading.Thread(target=attend, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def test_servers_meet_at_every_moment_of_a_renewal(parties: dict[str, PartyConfig]) -> None:
    alder, birch, cedar = (parties[name] for name in SERVERS)
    renew_keys(alder)
    assert meet(parties) == ["met"] * 3
    send(alder, birch)
    # One knows the new one, the other does not; the old one is shown.
    assert meet(parties) == ["met"] * 3
    send(alder, cedar)
    switch_keys(alder, ask=False)
    assert meet(parties) == ["met"] * 3
    # Who had not added it would not know the party.
    cedar.certificate_file("alder").write_text(check_keys(alder).earlier.pem)
    assert meet(parties, 8.0)[2] is Code.UNKNOWN_PEER


def test_switching_asks_those_who_take_calls(parties: dict[str, PartyConfig]) -> None:
    zoe = parties["zoe"]
    # For one that has begun to listen and does not answer yet.
    zoe.timeouts.__dict__.update(connect=4.0)
    refuses(Code.NOT_RENEWED, lambda: switch_keys(zoe))
    new = renew_keys(zoe)
    refuses(Code.NOT_RENEWED, lambda: renew_keys(zoe))
    daemons = [Daemon(parties[name], Policy.load(parties[name].folder)) for name in SERVERS]
    with daemons[0], daemons[1]:
        error = refuses(Code.NOT_RENEWED, lambda: switch_keys(zoe))
        for server in SERVERS:
            assert f"{server}: " in error.found
        with daemons[2]:
            send(zoe, *(parties[name] for name in SERVERS))
            assert daemons[0].reload()
            assert daemons[2].reload()
            error = refuses(Code.NOT_RENEWED, lambda: switch_keys(zoe))
            assert error.found.startswith("birch: ")
            assert "alder" not in error.found
            assert daemons[1].reload()
            assert switch_keys(zoe) == new
            for server in zoe.servers:
                call_member(zoe, server, "health")


def test_a_server_is_known_by_both_while_it_changes(parties: dict[str, PartyConfig]) -> None:
    birch, north, zoe = parties["birch"], parties["north"], parties["zoe"]
    with Daemon(birch, Policy.load(birch.folder)) as daemon:
        renew_keys(birch)
        send(birch, zoe)
        for caller in (north, zoe):
            call_member(caller, birch.me, "health")
        switch_keys(birch, ask=False)
        for caller in (north, zoe):
            call_member(caller, birch.me, "health")
        assert daemon.reload()
        call_member(zoe, birch.me, "health")
        refuses(Code.UNKNOWN_PEER, lambda: call_member(north, birch.me, "health"))
        add_certificate(north, birch.identity.certificate)
        call_member(north, birch.me, "health")


def test_a_switch_that_was_cut_off_is_finished(
    parties: dict[str, PartyConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    alder = parties["alder"]
    new = renew_keys(alder)
    # As a crash between the two files leaves it.
    alder.next_identity.certificate.replace(alder.identity.certificate)
    refuses(Code.BAD_KEY_FILE, lambda: check_keys(alder))
    assert switch_keys(alder) == check_keys(alder) == new


def test_a_line_of_certificates_has_an_end(
    parties: dict[str, PartyConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedgerow.parties.consortium.renewal.MAX_LINE", 2)
    zoe = parties["zoe"]
    renew_keys(zoe)
    switch_keys(zoe, ask=False)
    assert "--replace" in refuses(Code.NOT_RENEWED, lambda: renew_keys(zoe)).fix
    assert not zoe.next_identity.key.exists()


def test_another_key_does_not_take_its_place(parties: dict[str, PartyConfig]) -> None:
    alder = parties["alder"]
    keys = alder.identity.key.parent
    make_identity(keys, "alder", stem="next")
    before = check_keys(alder)
    refuses(Code.NOT_RENEWED, lambda: switch_keys(alder, ask=False))
    make_identity(keys, "alder", stem="more", renews=alder.identity)
    (keys / "more.pem").replace(keys / "next.pem")
    refuses(Code.BAD_KEY_FILE, lambda: switch_keys(alder, ask=False))
    assert check_keys(alder) == before


def test_answers_go_on_in_the_session_that_is_under_way(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.train("m")
    rows, _ = table(20, seed=5)

    def reload_all() -> None:
        for number, (service, _) in town.up.items():
            config = town.configs[SERVERS[number]]
            service.recognise(config.identity, known_callers(config))

    with town.open():
        first = town.analyst().ask("m", rows).labels
        session = town.up[2][1]._last_session
        # All three servers renew and switch, with no word to anybody but the certificates.
        for name in SERVERS:
            renew_keys(town.configs[name])
            send(
                town.configs[name],
                *(
                    c
                    for c in town.configs.values()
                    if c.name != name and c.certificate_file(name).exists()
                ),
            )
        reload_all()
        assert town.analyst().ask("m", rows).labels == first
        for name in SERVERS:
            switch_keys(town.configs[name])
        reload_all()
        assert town.analyst().ask("m", rows).labels == first
        assert town.up[2][1]._last_session == session
        # The next session is met with the new keys.
        town.stop(1)
        town.start(1)
        assert town.analyst().ask("m", rows).labels == first
        assert town.up[2][1]._last_session != session


@pytest.mark.parametrize(("days", "warned"), [(29, True), (31, False)])
def test_everybody_is_warned_before_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, warned: bool
) -> None:
    made = found(tmp_path, first_port=free_ports())
    for name, config in made.items():
        make_keys(config, days=days if name == "birch" else 90)
    for config in made.values():
        for other in made.values():
            if other is not config:
                add_certificate(config, other.identity.certificate)
    assert datetime.timedelta(days=29) < SOON < datetime.timedelta(days=31)
    # Of its own, of those that it speaks to, and of nobody else.
    told = {name: [ending.found for ending in endings(config)] for name, config in made.items()}
    assert set(map(len, told.values())) == ({1} if warned else {0})
    with Daemon(made["birch"], Policy.load(made["birch"].folder)):
        events = [one.event for one in caplog.records if hasattr(one, "event")]
    ends = [event for event in events if event.get("what") == "certificate ends soon"]
    assert [event["fix"] for event in ends] == ["run `hedgerow keys --renew`"] * warned
    (finding,) = [one for one in check_consortium(made["zoe"]) if one.member.name == "birch"]
    assert [warning.found for warning in finding.warnings] == told["zoe"]
    renew_keys(made["birch"])
    assert all("--switch" in ending.fix for ending in endings(made["birch"]))
    switch_keys(made["birch"], ask=False)
    assert endings(made["birch"]) == []


def test_everybody_is_warned_of_everybody(parties: dict[str, PartyConfig]) -> None:
    for name in ("zoe", "alder"):
        write_certificate(parties["north"].certificate_file(name), name)
    found = [ending.found for ending in endings(parties["north"])]
    assert len(found) == 2
    assert all(any(name in text for text in found) for name in ("zoe", "alder"))
