"""Numbered errors: what was expected, what was found, what to do.

Every refusal of Hedgerow has one number in one enumeration, `Code`; its texts are in
``errors.toml`` next to this file. ``hedgerow errors --write docs/errors`` makes a page of each.

Ranges: 1xx tables, 2xx privacy, 3xx leakage, 4xx trees and models, 5xx estimators,
6xx audit, 7xx secret arrays, 80x and 81x network, 82x to 84x messages of protocols,
85x to 89x, 93x and 94x parties, 95x oblivious transfer, 96x homomorphic encryption,
9xx else command line.
"""

from __future__ import annotations

import difflib
import sys
import tomllib
import warnings
from collections.abc import Iterable
from enum import Enum, unique
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import NamedTuple


class HedgerowWarning(UserWarning):
    """Something that is allowed and that the user should know about."""


def warn_caller(message: str) -> None:
    """Warn with a `HedgerowWarning` that points at the first line outside this package."""
    level, frame = 2, sys._getframe(1)
    while _inside(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, HedgerowWarning, stacklevel=level)


def _inside(frame: FrameType) -> bool:
    # What is warned of as a context of ours is entered is warned of by us.
    return str(frame.f_globals.get("__name__")).partition(".")[0] in (__package__, "contextlib")


class HedgerowError(Exception):
    """A numbered refusal; `code` is a member of `Code`.

    `party` is the name of the party that refused, where it is another one than this.
    """

    code: Code
    expected: str
    found: str
    fix: str
    party: str | None = None

    def __init__(self, code: Code, *, expected: str, found: str, fix: str) -> None:
        self.code, self.expected, self.found, self.fix = code, expected, found, fix
        parts = (
            f"{code.number}: {code.spec.title}",
            f"Expected: {expected}",
            f"Found: {found}",
            f"Do: {fix}",
        )
        super().__init__(" ".join(map(_sentence, parts)))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.code.name, self.expected, self.found, self.fix, self.party)


def _sentence(text: str) -> str:
    """Return a text with one full stop; messages of others that are quoted may have theirs."""
    return text if text.endswith(".") else f"{text}."


class InputError(HedgerowError, ValueError):
    """Data or a parameter outside what was declared."""


class InputTypeError(HedgerowError, TypeError):
    """Data of a type that cannot be read."""


class PrivacyError(HedgerowError, ValueError):
    """A privacy claim that cannot be made."""


class LeakageError(HedgerowError, RuntimeError):
    """An opening that was not declared."""


class SecretError(HedgerowError, TypeError):
    """A secret where Python wants a value."""


class FormatError(HedgerowError, ValueError):
    """A file or message that does not follow its format."""


class NetworkError(HedgerowError, ConnectionError):
    """A peer or a connection that does not do its part."""


class MissingExtraError(HedgerowError, ImportError):
    """An optional package that is not installed."""


class Spec(NamedTuple):
    """What one number stands for."""

    raises: type[HedgerowError]
    title: str
    expected: str
    fix: str
    why: str
    shell: str | None = None


RETIRED = {
    210: "seeded noise has no guarantee",
    308: "key that has placed these records before",
    842: "a site was lost",
    843: "no tree of this job yet",
    877: "request was made before",
    878: "clocks differ",
}
"""Numbers of errors that nothing raises any more: old messages and logs have them."""


@unique
class Code(Enum):
    """Every numbered error; a retired number stays reserved."""

    MISSING_VALUE = 101
    UNKNOWN_CATEGORY = 102
    OUTSIDE_BOUNDS = 103
    UNKNOWN_CLASS = 104
    EMPTY_TABLE = 105
    DUPLICATE_COLUMN = 106
    MISSING_COLUMN = 107
    WRONG_SHAPE = 108
    WRONG_TYPE = 109
    DUPLICATE_ID = 110
    IDS_DO_NOT_ALIGN = 111
    CAPACITY_EXCEEDED = 112
    BAD_ATTRIBUTE = 113
    BAD_DOMAIN_FILE = 114
    UNREADABLE_FILE = 115
    BAD_TARGET = 116
    BAD_DOMAIN = 117
    TOO_MANY_BINS = 118
    TABLE_CHANGED = 119
    NO_DATABASE = 120
    BAD_QUERY = 121
    QUERY_STOPPED = 122
    BAD_EPSILON = 201
    DOMAIN_READ_FROM_DATA = 202
    MISSING_DOMAIN = 203
    UNKNOWN_MECHANISM = 204
    BAD_RELEASE = 205
    BAD_SCOPE = 206
    BUDGET_EXCEEDED = 207
    MISSING_CAPACITY = 208
    BAD_MECHANISM_INPUT = 209
    BAD_LEDGER_FILE = 211
    EPSILON_BEYOND_REACH = 212
    UNDECLARED_OPENING = 301
    WRONG_AUDIENCE = 302
    WRONG_OPENING_SHAPE = 303
    TOO_MANY_OPENINGS = 304
    BAD_DECLARATION = 305
    NOT_CHARGED = 306
    OPENING_NOT_KEPT = 307
    BAD_MODEL_FILE = 401
    MODEL_VERSION = 402
    BAD_TREE = 403
    CANNOT_EXPORT = 404
    NO_MODEL_FILE = 405
    MISSING_EXTRA = 406
    UNKNOWN_MODEL = 407
    MODEL_FILE_CUT_OFF = 408
    MODEL_DAMAGED = 409
    BAD_PARAMETER = 501
    ONE_CLASS = 502
    UNKNOWN_TARGET = 601
    BAD_AUDIT = 602
    SECRET_IN_THE_OPEN = 701
    SECRETS_DO_NOT_FIT = 702
    WRONG_THREAD = 703
    SHARES_DIFFER = 704
    ADDRESS_USED_TWICE = 750
    BAD_ELEMENT = 751
    BAD_SITE_MESSAGE = 752
    UNKNOWN_NODE = 753
    SITE_CONTRADICTS = 754
    BAD_SITES = 755
    SEALED_REFUSED = 760
    BAD_PLAN = 801
    NETWORK_CLOSED = 802
    PEER_TIMEOUT = 803
    PEER_GONE = 804
    PEER_STOPPED = 805
    BAD_FRAME = 806
    WRONG_VERSION = 807
    SESSION_MISMATCH = 808
    UNKNOWN_PEER = 809
    BAD_KEY_FILE = 810
    CANNOT_LISTEN = 811
    PARTY_FAILED = 812
    BAD_METER = 813
    TOO_MUCH_FOR_ONE_KEY = 814
    NO_CHANNEL = 815
    BAD_ASK = 820
    ASKED_TWICE = 821
    BAD_ANSWER = 822
    UNEXPECTED_ANSWER = 823
    TOO_FEW_OWNERS = 824
    ANSWERS_LOST = 840
    PUT_OUT = 841
    UNKNOWN_MEMBER = 850
    BAD_NAME = 851
    BAD_PARTY_FILE = 852
    BAD_POLICY_FILE = 853
    UNSAFE_FOLDER = 854
    CERTIFICATE_EXPIRED = 855
    WRONG_CERTIFICATE = 856
    MISSING_CERTIFICATE = 857
    POLICY_REFUSES = 858
    FOLDER_EXISTS = 859
    NOT_A_VAULT = 860
    VAULT_WRONG_KEY = 861
    VAULT_DAMAGED = 862
    VAULT_TRUNCATED = 863
    VAULT_OF_ANOTHER = 864
    BAD_STATE_KEY = 865
    STATE_KEY_EXPOSED = 866
    JOURNAL_DAMAGED = 867
    JOURNAL_IN_USE = 868
    STATE_NOT_WRITTEN = 869
    CALLER_UNKNOWN = 870
    CALLER_NOT_ALLOWED = 871
    BAD_REQUEST = 872
    UNKNOWN_VERB = 873
    HEADER_TOO_LARGE = 874
    PAYLOAD_TOO_LARGE = 875
    REQUEST_TOO_SLOW = 876
    SERVICE_BUSY = 879
    SERVICE_STOPPING = 880
    SERVICE_FAILED = 881
    SERVICE_UNREACHABLE = 882
    REQUEST_CUT_OFF = 883
    BAD_REPLY = 884
    BAD_JOB = 885
    UPLOAD_ID_USED = 886
    BAD_UPLOAD = 887
    UNKNOWN_UPLOAD = 888
    ACCOUNT_CONFLICT = 889
    UNKNOWN_RUN = 890
    JOBS_DIFFER = 891
    MODEL_EXISTS = 892
    WRONG_RUN_STATE = 893
    SERVER_MISSING = 894
    UPLOADS_DIFFER = 895
    QUERY_CONFLICT = 896
    QUERY_REFUSED_ELSEWHERE = 897
    QUERY_NOT_ANSWERED = 898
    ALREADY_SERVED = 899
    UNKNOWN_ERROR_NUMBER = 901
    FILE_EXISTS = 902
    OTHER_DELIMITER = 903
    OTHER_ENCODING = 904
    WRONG_ROLE = 905
    NOT_IN_JOB = 906
    ROLE_MISSING = 907
    PORT_MISSING = 908
    NO_JOB_FILE = 909
    UPLOADS_DO_NOT_FIT = 910
    JOB_WITHOUT_SERVERS = 911
    RUN_OF_ANOTHER_JOB = 912
    RUN_OF_ANOTHER = 930
    UPLOAD_ID_RESERVED = 931
    STATE_VERSION = 932
    TRAIL_BROKEN = 933
    NO_TABLE_HERE = 934
    NOT_SIGNED = 935
    STATE_SET_BACK = 936
    NOT_APPROVED = 937
    APPROVAL_AWAITED = 938
    CONSOLE_REFUSES = 939
    BAD_BUNDLE = 940
    OTHER_MEMBERS = 941
    TWO_CERTIFICATES = 942
    OTHER_DIGEST = 943
    NOT_RENEWED = 944
    CHARGES_DIFFER = 945
    UPLOAD_WITHDRAWN = 946
    UPLOAD_IN_USE = 947
    ROWS_NOT_HELD_OUT = 948
    BAD_TRANSFER_MESSAGE = 950
    BAD_TRANSFER_POINT = 951
    TRANSFER_CHECK_FAILED = 952
    TRANSFER_USED_TWICE = 953
    TRANSFER_SESSION_USED = 954
    TRANSFER_NOT_READY = 955
    BAD_CIPHERTEXT = 960
    PLAINTEXT_OVERFLOW = 961

    @property
    def number(self) -> str:
        """The number as printed, such as ``H101``."""
        return f"H{self.value}"

    @property
    def spec(self) -> Spec:
        """The texts of this number."""
        return _specs()[self.name]

    def error(
        self, *, found: str, expected: str | None = None, fix: str | None = None
    ) -> HedgerowError:
        """Build the exception; `found` is always particular, the rest may be made so."""
        spec = self.spec
        return spec.raises(
            self, expected=expected or spec.expected, found=found, fix=fix or spec.fix
        )

    def page(self) -> str:
        """Render the help page as Markdown."""
        spec = self.spec
        at_shell = f"**At a shell:** {spec.shell}.\n\n" if spec.shell else ""
        return (
            f"# {self.number}: {spec.title}\n\n"
            f"{spec.why}\n\n"
            f"**Expected:** {spec.expected}.\n\n"
            f"**What to do:** {spec.fix}.\n\n{at_shell}"
            f"In Python: `hedgerow.errors.Code.{self.name}`, raised as "
            f"`hedgerow.errors.{spec.raises.__name__}`.\n"
        )


def install_of(extra: str) -> str:
    """Return how packages are installed that the core does without."""
    return f"in the folder of Hedgerow's source, pip install '.[{extra}]'"


def ask_whether(name: str, known: Iterable[str]) -> str:
    """Return a question to stand behind a name that is none of those known, if one is like it."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def write_pages(folder: Path) -> None:
    """Write the help page of every number, and an index, into a folder of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in folder.glob("H[0-9][0-9][0-9].md"):
        page.unlink()
    for code in Code:
        (folder / f"{code.number}.md").write_text(code.page(), encoding="utf-8")
    index = folder / "README.md"
    heading = "# Numbered errors\n\n"
    if not index.exists() or index.read_text(encoding="utf-8").startswith(heading):
        lines = [f"- [{code.number}]({code.number}.md): {code.spec.title}\n" for code in Code]
        index.write_text(heading + "".join(lines), encoding="utf-8")


@cache
def _specs() -> dict[str, Spec]:
    kinds = {kind.__name__: kind for kind in HedgerowError.__subclasses__()}
    texts = tomllib.loads(files("hedgerow").joinpath("errors.toml").read_text(encoding="utf-8"))
    return {name: Spec(**text | {"raises": kinds[text["raises"]]}) for name, text in texts.items()}


def _rebuild(
    name: str, expected: str, found: str, fix: str, party: str | None = None
) -> HedgerowError:
    error = Code[name].error(found=found, expected=expected, fix=fix)
    error.party = party
    return error
