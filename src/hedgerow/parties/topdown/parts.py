"""Which command of a DP-TopDown run is for whom."""

from __future__ import annotations

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig, Role

_VERBS: dict[Role, str] = {
    "coordinator": "hedgerow topdown coordinate",
    "owner": "hedgerow topdown join",
    "server": "hedgerow topdown serve",
}


def check_part(config: PartyConfig, role: Role) -> None:
    """Refuse a party in another role, and say which command is for it; H905."""
    if config.role == role:
        return
    verb = _VERBS.get(config.role)
    here = f"in this folder: {verb}" if verb else "such a party takes no part in these runs"
    raise Code.WRONG_ROLE.error(
        expected=f"the folder of {'an' if role == 'owner' else 'a'} {role}",
        found=f"{config.name}: this folder is {config.me.kind}'s",
        fix=f"{here}; `{_VERBS[role]}` is for the {role}",
    )
