"""The auditor attacks every implementation of DP-TopDown from both views."""

from hedgerow.audit.catalogue.topdown import topdown_trees


def test_both_views_of_each_implementation_are_targets() -> None:
    targets = {target.name: target for target in topdown_trees()}
    for name in ("single-machine", "noisy-counts", "secure-counts", "local-rnm"):
        for seen in ("messages", "tree"):
            assert f"topdown/{name}/{seen}@1" in targets
    assert len([target for target in targets.values() if not target.sound]) == 8
