"""All servers are asked at once, and each is heard."""

from pathlib import Path

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.wire.client import Reply
from hedgerow.parties.wire.handlers import Verb
from hedgerow.parties.wire.server_client import ServerClient
from tests.parties.roles.upload_servers import consortium, serving


def greeting(config) -> dict[str, Verb]:
    def greet(caller, fields, payload):
        del payload
        if config.name == "birch":
            raise Code.BAD_NAME.error(found="no manners")
        return {"to": caller.name, **fields}, b"hello"

    return {"greet": Verb(("owner", "server"), greet, idempotent=True)}


def test_replies_refusals_and_silence(tmp_path: Path) -> None:
    parties = consortium(tmp_path)
    client = ServerClient(parties["north"])
    with serving(parties, greeting, names=("alder", "birch")):
        told = client._ask_all("greet", {"day": "good"})
        by_alder = ServerClient(parties["alder"])._ask_all("greet", {})
    assert list(told) == ["alder", "birch", "cedar"]
    assert told["alder"] == Reply({"to": "north", "day": "good"}, b"hello")
    errors = {n: e for n, e in told.items() if isinstance(e, HedgerowError)}
    assert {name: error.code for name, error in errors.items()} == {
        "birch": Code.BAD_NAME,
        "cedar": Code.SERVICE_UNREACHABLE,
    }
    # A server asks the other two.
    assert list(by_alder) == ["birch", "cedar"]
