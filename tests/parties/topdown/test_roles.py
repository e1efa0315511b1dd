"""Who is in the wrong folder is told which command is for it."""

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import list_members
from hedgerow.parties.topdown.parts import check_part
from tests.parties.wire.parties_calls import refuses

VERBS = {"delta": "coordinate", "north": "join", "alder": "serve"}
ROLES = {"delta": "coordinator", "north": "owner", "alder": "server", "zoe": "analyst"}


def party(name: str) -> PartyConfig:
    servers = ("alder", "birch", "cedar")
    members = list_members(servers, ["north"], ["zoe"], coordinator="delta")
    return PartyConfig(consortium="wards", name=name, members=members)


@pytest.mark.parametrize("name", ROLES)
def test_each_role_has_its_command(name: str) -> None:
    for other, verb in VERBS.items():
        if other == name:
            check_part(party(name), ROLES[name])
            continue
        error = refuses(Code.WRONG_ROLE, lambda other=other: check_part(party(name), ROLES[other]))
        assert f"`hedgerow topdown {verb}` is for the {ROLES[other]}" in error.fix
        own = f"in this folder: hedgerow topdown {VERBS[name]};" if name in VERBS else "no part"
        assert own in error.fix
        assert f"{ROLES[name]}'s" in error.found
