"""The request ``models``: what a server keeps, and what an analyst has to know to ask."""

from __future__ import annotations

import json

from hedgerow.errors import Code
from hedgerow.parties.folders import StateFolder
from hedgerow.parties.handlers import Caller, Verb
from hedgerow.parties.library import ANSWERED, Library
from hedgerow.parties.link import Incoming
from hedgerow.parties.models import list_models, open_model
from hedgerow.parties.policy import Policy
from hedgerow.parties.requests import Fields, Payload

_ROLES = ("analyst", "owner", "server")


class Catalogue:
    """Tell members about the models of a server.

    Parameters
    ----------
    state : StateFolder
    key : bytes of length 32
        The operator's.
    library : Library
    policy : Policy

    Attributes
    ----------
    verbs : dict of str to Verb
        Requests that it answers, for the party's service.
    """

    def __init__(self, state: StateFolder, key: bytes, library: Library, policy: Policy) -> None:
        self._state, self._key, self._library, self._policy = state, key, library, policy
        self.verbs: dict[str, Verb] = {"models": Verb(_ROLES, self._models, idempotent=True)}

    def _models(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        """List the models, or tell about one of them: ``model``.

        Reply to a list: ``models``, each with name, kind, run and analysts. Reply about one:
        ``left``, the rows that the caller may still ask, and the manifest as payload, as
        `Manifest.to_json` writes it; with an opened tree behind it, at ``manifest`` bytes.
        """
        del payload
        if not fields:
            known = [
                {"model": m.name, "kind": m.kind, "run": m.run, "analysts": list(m.analysts)}
                for m in list_models(self._state)
                if caller.role != "analyst" or caller.name in m.analysts
            ]
            return {"models": known}, None
        if set(fields) != {"model"} or not isinstance(fields["model"], str):
            raise Code.BAD_REQUEST.error(expected="model, or nothing", found="other fields")
        manifest = self._library.manifest(fields["model"])
        text = manifest.to_json().encode()
        left, tree = 0, b""
        if caller.role == "analyst" and manifest.kind == ANSWERED:
            left = self._library.book(manifest.name).left(self._policy, caller.name)
        elif manifest.kind != ANSWERED:
            stored = open_model(self._state, self._key, manifest.name)
            tree = b"" if stored.tree is None else json.dumps(stored.tree).encode()
        return {"left": left, "manifest": len(text)}, [text, tree]
