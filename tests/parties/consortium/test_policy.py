"""A policy refuses what it does not allow, and names the line."""

import math
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.policy import LIFETIME_DELTA, Lifetime, Policy
from hedgerow.parties.store.durable import make_private
from hedgerow.protocols.hidden.evaluation import EvaluationOptions
from hedgerow.protocols.registry import PEER_PROTOCOLS, PROTOCOLS, server_protocol
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.tables import Target
from tests.parties.wire.parties_calls import refuses

FIELDS: dict[str, Any] = {
    "largest_epsilon_per_job": 1.0,
    "allowed_protocols": ["hidden-tree", "hidden-boosting"],
    "allowed_analysts": ["zoe", "yves"],
    "queries_per_model": 100,
    "queries_per_analyst": 60,
    "populations": {"patients": 3.0},
}


@pytest.fixture
def policy() -> Policy:
    return Policy(**FIELDS)


def refusal(action, line: str) -> str:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is Code.POLICY_REFUSES
    assert caught.value.expected == f"what policy.toml allows: {line}"
    return caught.value.found


def job(**changes: Any) -> dict[str, Any]:
    fields = {
        "protocol": "hidden-tree",
        "epsilon": {"analyst": 1.0, "public": 0.0},
        "analysts": ["zoe"],
        "populations": ["patients"],
    }
    return fields | changes


def test_what_is_allowed(policy: Policy) -> None:
    policy.check_job(**job())
    policy.check_job(**job(protocol="hidden-boosting", analysts=[], delta={"analyst": 1e-12}))
    # Ten times a tenth is more than one by rounding alone.
    policy.check_job(**job(epsilon={"analyst": sum([0.1] * 10) + 2e-16}))
    policy.check_account("patients", spent=2.0, epsilon=1.0)
    policy.check_queries("zoe", rows=20, by_analyst=40, by_all=80)


def test_protocols_and_analysts(policy: Policy) -> None:
    line = 'allowed_protocols = ["hidden-tree", "hidden-boosting"]'
    assert "'open-tree'" in refusal(lambda: policy.check_job(**job(protocol="open-tree")), line)
    line = 'allowed_analysts = ["zoe", "yves"]'
    assert "'eve'" in refusal(lambda: policy.check_job(**job(analysts=["zoe", "eve"])), line)
    asked = {"rows": 1, "by_analyst": 0, "by_all": 0}
    refusal(lambda: policy.check_queries("eve", **asked), line)


def test_epsilon_of_every_audience(policy: Policy) -> None:
    line = "largest_epsilon_per_job = 1"
    found = refusal(lambda: policy.check_job(**job(epsilon={"analyst": 0.5, "public": 1.01})), line)
    assert found == "epsilon 1.01 for public"
    # Figures that are missing are not zeros.
    refusal(lambda: policy.check_job(**job(epsilon={})), line)
    costly = job(delta={"analyst": 1e-6})
    refusal(lambda: policy.check_job(**costly), "largest_delta_per_job = 1e-09")


def test_exact_models_need_a_word_of_their_own(policy: Policy) -> None:
    exact = job(epsilon={"analyst": math.inf}, delta={"analyst": 0.5})
    assert "analyst" in refusal(lambda: policy.check_job(**exact), "allow_exact = false")
    # Allowed in general, and still charged to the population.
    lenient = Policy(**FIELDS | {"allow_exact": True})
    refusal(lambda: lenient.check_job(**exact), "[populations] patients.epsilon = 3")
    unlimited = Policy(**FIELDS | {"allow_exact": True, "populations": {"patients": math.inf}})
    unlimited.check_job(**exact)
    refusal(
        lambda: unlimited.check_job(**job(epsilon={"analyst": math.inf, "public": 2.0})),
        "largest_epsilon_per_job = 1",
    )


def test_lifetime_of_a_population(policy: Policy) -> None:
    line = "[populations] patients.epsilon = 3"
    found = refusal(lambda: policy.check_account("patients", spent=2.5, epsilon=0.6), line)
    assert found == "epsilon 2.5 spent and 0.6 more"
    refusal(lambda: policy.check_account("staff", spent=0.0, epsilon=0.1), "[populations]")
    with pytest.raises(HedgerowError) as unlisted:
        policy.check_account("staff", spent=0.0, epsilon=0.1)
    # An operator who has just added the line wants to know why it is not read.
    for words in ("NAME = 3.0", "[populations]", "systemctl reload hedgerow", "kill -HUP"):
        assert words in unlisted.value.fix
    refusal(lambda: policy.check_job(**job(populations=["patients", "staff"])), "[populations]")
    with pytest.raises(HedgerowError) as caught:
        policy.check_account("../patients", spent=0.0, epsilon=0.1)
    assert caught.value.code is Code.BAD_NAME


def test_lifetime_of_a_population_has_a_delta(policy: Policy) -> None:
    """An epsilon alone comes with a delta; both are limits, unless nothing finite is promised."""
    assert policy.populations["patients"].delta == LIFETIME_DELTA == 1e-6
    line = "[populations] patients.delta = 1e-06"
    within = {"spent": 0.5, "epsilon": 0.5, "spent_delta": 6e-7}
    policy.check_account("patients", **within, delta=4e-7)
    found = refusal(lambda: policy.check_account("patients", **within, delta=5e-7), line)
    assert found == "delta 6e-07 spent and 5e-07 more"
    bold = Policy(**FIELDS | {"largest_delta_per_job": 0.1})
    refusal(lambda: bold.check_job(**job(delta={"analyst": 0.01})), line)
    wider = {"patients": {"epsilon": 3.0, "delta": 0.02}}
    Policy(**FIELDS | {"largest_delta_per_job": 0.1, "populations": wider}).check_job(
        **job(delta={"analyst": 0.01})
    )
    endless = Policy(**FIELDS | {"allow_exact": True, "populations": {"patients": math.inf}})
    endless.check_account("patients", spent=0.0, epsilon=1.0, spent_delta=0.9, delta=0.9)


def test_sizes(policy: Policy) -> None:
    size = {"trees": 1000, "depth": 20, "epsilon": 1.0, "queries": 100}
    policy.check_size(**size)
    for key, line in (
        ("trees", "largest_trees_per_job = 1000"),
        ("depth", "largest_depth = 20"),
        ("epsilon", "largest_epsilon_per_job = 1"),
        ("queries", "queries_per_model = 100"),
    ):
        bigger = size | {key: size[key] * 1.001 if key == "epsilon" else size[key] + 1}
        refusal(lambda bigger=bigger: policy.check_size(**bigger), line)


HOSTILE = {
    "hidden-tree": {
        "largest_depth": {"epsilon": 1.0, "max_depth": 1 << 40, "n_trees": 1000},
        "largest_trees_per_job": {"epsilon": 1.0, "max_depth": 20, "n_trees": 10_000},
        "queries_per_model": {"noise": "votes", "epsilon": 1e-9, "delta": 1e-6, "queries": 1 << 40},
    },
    "open-tree": {"largest_depth": {"noise": "none", "max_depth": 1 << 40}},
    "hidden-regression": {"largest_depth": {"epsilon": 1.0, "max_depth": 1 << 40}},
    "hidden-boosting": {
        "largest_depth": {"epsilon": 1.0, "n_rounds": 100, "max_depth": 1 << 40},
        "largest_trees_per_job": {"epsilon": 1.0, "n_rounds": 1000},
        "largest_epsilon_per_job": {"epsilon": 1.5, "n_rounds": 100},
    },
    "topdown": {
        "largest_depth": {"epsilon": 1.0, "n_splits": 1 << 16, "max_depth": 1 << 16},
        "largest_epsilon_per_job": {"epsilon": 1e300, "n_splits": 1 << 16},
    },
    "vertical-id3": {
        "largest_depth": {"max_depth": 1 << 40},
        "largest_epsilon_per_job": {"cardinality": "secret", "epsilon": 500.0, "max_depth": 2},
    },
    "pivot-tree": {"largest_depth": {"max_depth": 1 << 40}},
    "pivot-forest": {
        "largest_depth": {"max_depth": 1 << 40},
        "largest_trees_per_job": {"n_estimators": 1001},
    },
    "pivot-boosting": {
        "largest_depth": {"max_depth": 1 << 40},
        "largest_trees_per_job": {"n_estimators": 1000},
    },
    "pivot-logistic": {"largest_trees_per_job": {"max_iter": 1 << 40}},
    "evaluation": {"largest_epsilon_per_job": {"epsilon": 2.0}},
}
"""Tables of jobs of every kind, by the line of the policy that is in the way."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_job_of_any_kind_is_refused_by_the_numbers_that_stand_in_it(
    policy: Policy, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kilobyte that asks for much must not be planned to be refused: that took half a minute."""
    others = {
        "topdown": TopDownOptions,
        "vertical-id3": VerticalOptions,
        **{name: one.options_type for name, one in PEER_PROTOCOLS.items()},
        "evaluation": EvaluationOptions,
    }
    options = others.get(protocol) or server_protocol(protocol).options_type

    def planned(*_: object, **__: object) -> None:
        raise AssertionError("a plan was made of options that the policy does not allow")

    monkeypatch.setattr(options, "plan", planned)
    target = Target(name="ill", classes=tuple(f"c{i}" for i in range(10)))
    for line, table in HOSTILE[protocol].items():
        size = options.from_table(table).size(target)
        expected = f"{line} = {getattr(policy, line):g}"
        refusal(lambda size=size: policy.check_size(**size._asdict()), expected)


def test_posters(policy: Policy) -> None:
    """Without a list the owners of the uploads of a job may post it; with one, who is listed."""
    policy.check_poster("north", ["north", "south"])
    line = "no line allowed_posters: owners of an upload of the job alone"
    assert "'zoe'" in refusal(lambda: policy.check_poster("zoe", ["north"]), line)
    listed = Policy(**FIELDS | {"allowed_posters": ["zoe"]})
    listed.check_poster("zoe", ["north"])
    refusal(lambda: listed.check_poster("north", ["north"]), 'allowed_posters = ["zoe"]')


@pytest.mark.parametrize("bad", [-0.1, math.nan, "1", None, True])
def test_figures_that_are_none(policy: Policy, bad: Any) -> None:
    for action in (
        lambda: policy.check_epsilon({"analyst": bad}),
        lambda: policy.check_epsilon({"analyst": 1.0}, {"analyst": bad}),
        lambda: policy.check_account("patients", spent=bad, epsilon=0.1),
        lambda: policy.check_account("patients", spent=0.1, epsilon=bad),
        lambda: policy.check_account("patients", spent=0.1, epsilon=0.1, spent_delta=bad),
        lambda: policy.check_account("patients", spent=0.1, epsilon=0.1, delta=bad),
    ):
        with pytest.raises(HedgerowError) as caught:
            action()
        assert caught.value.code is Code.BAD_PARAMETER


def test_queries(policy: Policy) -> None:
    asked = {"rows": 21, "by_analyst": 40, "by_all": 40}
    refusal(lambda: policy.check_queries("zoe", **asked), "queries_per_analyst = 60")
    asked = {"rows": 21, "by_analyst": 0, "by_all": 80}
    refusal(lambda: policy.check_queries("zoe", **asked), "queries_per_model = 100")
    for bad in (-1, True, 1.5):
        for key in asked:
            with pytest.raises(HedgerowError) as caught:
                policy.check_queries("zoe", **asked | {key: bad})
            assert caught.value.code is Code.BAD_PARAMETER


@pytest.mark.parametrize(
    "change",
    [
        {"largest_epsilon_per_job": 0},
        {"largest_epsilon_per_job": math.inf},
        {"largest_epsilon_per_job": math.nan},
        {"largest_delta_per_job": 1.0},
        {"largest_delta_per_job": -1.0},
        {"allow_exact": "yes"},
        {"allow_exact": 1},
        {"allowed_protocols": ["hidden-tree", "hidden-tree"]},
        {"allowed_protocols": ["oak"]},
        {"allowed_analysts": ["zoe", "zoe"]},
        {"allowed_analysts": "zoe"},
        {"queries_per_model": -1},
        {"queries_per_model": 10.5},
        {"queries_per_analyst": True},
        {"populations": {"patients": 0.0}},
        {"populations": {"patients": math.nan}},
        {"populations": {"patients": math.inf}},
        {"populations": {"patients": True}},
        {"populations": {"patients": {"epsilon": 1.0, "delta": 1.0}}},
        {"populations": {"patients": {"delta": 0.1}}},
        {"populations": {"patients": {"epsilon": 1.0, "rho": 1.0}}},
        {"allowed_posters": ["zoe", "zoe"]},
        {"largest_epsilon": 1.0},
    ],
    ids=str,
)
def test_unsound_policies(change: dict[str, Any]) -> None:
    with pytest.raises(HedgerowError) as caught:
        Policy(**FIELDS | change)
    assert caught.value.code is Code.BAD_POLICY_FILE
    assert next(iter(change)) in caught.value.found


def test_no_limit_is_left_out() -> None:
    for key in FIELDS.keys() - {"populations"}:
        with pytest.raises(HedgerowError) as caught:
            Policy(**{name: value for name, value in FIELDS.items() if name != key})
        assert caught.value.code is Code.BAD_POLICY_FILE


def test_files(tmp_path: Path) -> None:
    folder = tmp_path / "party"
    make_private(folder)
    path = folder / "policy.toml"
    text = (
        "largest_epsilon_per_job = 0.5\nallowed_protocols = ['hidden-tree']\n"
        "allowed_analysts = []\nqueries_per_model = 1\nqueries_per_analyst = 1\n"
        "[populations]\npatients = 2\n"
    )
    path.write_text(text)
    assert Policy.load(folder).populations == {"patients": Lifetime(epsilon=2.0, delta=1e-6)}
    for bad in (
        "largest_epsilon = 9\n" + text,
        text + "patients = 9\n",
        text + "'../x' = 9\n",
        "a = [",
        "",
    ):
        path.write_text(bad)
        with pytest.raises(HedgerowError) as caught:
            Policy.load(folder)
        assert caught.value.code is Code.BAD_POLICY_FILE
        assert str(path) in caught.value.found
    path.unlink()
    with pytest.raises(HedgerowError, match="H853"):
        Policy.load(folder)
    folder.chmod(0o755)
    with pytest.raises(HedgerowError, match="H854"):
        Policy.load(folder)


def test_the_names_of_protocols_of_older_versions_are_read() -> None:
    lines = {
        "largest_epsilon_per_job": 1.0,
        "allowed_protocols": ["trees", "open", "regression", "boosting", "topdown", "ppid3"],
        "allowed_analysts": [],
        "queries_per_model": 1,
        "queries_per_analyst": 1,
    }
    policy = Policy.model_validate(lines)
    newer = (*PEER_PROTOCOLS, "evaluation")
    assert policy.allowed_protocols == tuple(name for name in PROTOCOLS if name not in newer)
    for name in policy.allowed_protocols:
        policy.check_protocol(name)
    twice = lines | {"allowed_protocols": ["trees", "hidden-tree"]}
    assert "twice" in refuses(Code.BAD_POLICY_FILE, lambda: Policy.model_validate(twice)).found
