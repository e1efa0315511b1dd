"""A new key before the certificate of the old one ends, without founding anew.

1. `renew_keys` makes a key and a certificate beside the ones in use. The old key signs the new one,
   inside the new certificate, and the certificate is followed by those before it.
2. The other members add it. They know the party by either from then on, each in its time, and
   need no telephone call: the signature says what a call would.
3. `switch_keys` has the party use the new key, once those whom it can ask know it. What is under
   way goes on with what it began with.
"""

from __future__ import annotations

import os

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import DAYS, Identity, make_identity, tls_context
from hedgerow.parties.consortium.config import MAX_FILE_BYTES, PartyConfig
from hedgerow.parties.consortium.members import MAX_LINE, Certificate, check_days, check_keys
from hedgerow.parties.consortium.reach import ask_health
from hedgerow.parties.store.durable import read_small, sync_folder


def renew_keys(config: PartyConfig, days: int = DAYS) -> Certificate:
    """Make this party's next key and certificate; the ones in use stay so until `switch_keys`.

    Raises H855 if the certificate in use has ended: its key vouches for nothing then. H944 if
    there is a next one already, or were too many before.
    """
    check_days(days)
    line = list(check_keys(config).line())
    if len(line) >= MAX_LINE:
        raise Code.NOT_RENEWED.error(
            expected=f"fewer than {MAX_LINE} certificates, one after another",
            found=f"{len(line)}",
            fix="move the key away, make a new one with `hedgerow keys`, and have the members add "
            "its certificate with --replace, after a call",
        )
    target = config.next_identity
    if os.path.lexists(target.key):
        raise Code.NOT_RENEWED.error(
            expected=f"no key at {target.key}",
            found="one that was made before",
            fix="have the members add keys/next.pem, then run `hedgerow keys --switch`",
        )
    folder = target.key.parent
    made = make_identity(folder, config.name, stem="next", days=days, renews=config.identity)
    sync_folder(folder)
    return _parse(made)


def switch_keys(config: PartyConfig, *, ask: bool = True) -> Certificate:
    """Use the next key and certificate from now on.

    `ask`: whether to try it first at all members that take calls of this party.
    Raises H944 if there is none, or if one of these does not accept it or does not answer.
    """
    new, old = config.next_identity, config.identity
    if not os.path.lexists(new.key):
        raise Code.NOT_RENEWED.error(
            found=f"none at {new.key}", fix="make one with `hedgerow keys --renew`"
        )
    # If the certificate is in its place already, the last attempt ended before the key was.
    moved = not os.path.lexists(new.certificate)
    used = Identity(new.key, old.certificate) if moved else new
    certificate = _parse(used)
    certificate.check_time()
    # Loading both of them compares them.
    tls_context(used, [certificate.pem], server=False)
    if not moved:
        if certificate.earlier != Certificate.of(config, config.name):
            raise Code.NOT_RENEWED.error(
                expected=f"a certificate in {new.certificate} that renews the one in use",
                found="another one",
                fix="move keys/next.key and keys/next.pem away, and renew again",
            )
        if ask:
            _ask_all(config, new)
        os.replace(new.certificate, old.certificate)
    os.replace(new.key, old.key)
    sync_folder(old.key.parent)
    return certificate


def _ask_all(config: PartyConfig, identity: Identity) -> None:
    """Refuse with H944, by name, members that do not accept an identity of this party."""
    refused = []
    for member in config.members:
        if member.takes_calls and member != config.me:
            try:
                ask_health(config, member, identity)
            except HedgerowError as error:
                refused.append(f"{member.name}: {error.found}")
    if refused:
        raise Code.NOT_RENEWED.error(
            expected="all members that take calls to accept the new certificate",
            found="; ".join(refused),
            fix="have them add keys/next.pem and reload (SIGHUP), then run `hedgerow keys "
            "--switch` again; `--unasked` switches all the same",
        )


def _parse(identity: Identity) -> Certificate:
    text = read_small(identity.certificate, MAX_FILE_BYTES, Code.WRONG_CERTIFICATE)
    return Certificate.parse(text, str(identity.certificate))
