"""Paper 002's claims, each with a verdict that follows from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hedgerow.protocols.vertical_id3.leakage import GAIN
from reproduce.paper_002.findings import leaks_of, percent, ring_example, spread, trees_of
from reproduce.paper_002.methods import COUNTINGS
from reproduce.paper_002.study import Record, chosen
from reproduce.report import claim, verdict_of

FIGURE_2 = ["S1L1", "S2L2", "S2L4"]
"""The tokens of section 3: outlook, humidity, and the leaf."""
LITTLE = 1.25
"""What has little effect changes a number by no more than this factor."""
MUCH = 1.5
"""What makes the protocol significantly cheaper saves at least this factor."""
SOME = 0.25
"""Of what is revealed, the share that may be new and still be "not much"."""
CHANCE = 1e-6
"""A p-value above this is no sign against a law."""

Claim = dict[str, Any]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Judge all claims, in the order of the paper."""
    judged = (
        _any_number_of_parties,
        _structure_alone,
        _schema,
        _figure_2,
        _deviation,
        _remaining,
        _subcounts,
        _best_gain,
        _only_these,
        _fresh_keys,
        _instances,
        _node_cost,
        _tree_cost,
        _used_attributes,
        _one_intersection,
        _encryptions,
        _bits,
        _parallel,
        _classification,
        _class_everywhere,
    )
    return [judge(list(records)) for judge in judged]


def _any_number_of_parties(records: list[Record]) -> Claim:
    trees = trees_of(records)
    same = sum(r["is_id3"] for r in trees)
    sites = sorted({r["k"] for r in trees})
    return claim(
        "abstract, section 1",
        "An ID3 tree for any number of parties, with the class at one of them.",
        verdict_of(same == len(trees)),
        f"{same} of {len(trees)} trees are ID3's on the joined columns, among {sites[0]} to "
        f"{sites[-1]} sites: {', '.join(COUNTINGS.values())}.",
    )


def _structure_alone(records: list[Record]) -> Claim:
    ring, _, secret = leaks_of(records)["other_counts"]
    literal = ring_example(records)["literal"]
    total = literal["intersections"]
    new = total - literal["by_node"] - literal["by_split"]
    return claim(
        "section 1",
        "The tree's structure and counts at its nodes are all that is revealed; since the leaves "
        "give the counts above them, not much of it is new.",
        verdict_of(not (new or ring["tables_that_differ"]), part=new <= SOME * total),
        f"On the example {new} of {total} counts are of attributes that no node tests there: no "
        f"leaf gives them. Another table with the same tree and leaves has others in "
        f"{ring['tables_that_differ']} of {ring['tables']} tables of counts (such as "
        f"{ring['example'][0]} and {ring['example'][1]}). {ring['counts_of_one']} of "
        f"{ring['counts']} counts are of one record. Sub-intersections come on top (lemma 2). On "
        f"secret counts the sites that ask are still told {secret['counts']} counts.",
    )


def _schema(records: list[Record]) -> Claim:
    found = leaks_of(records)["schema"]
    return claim(
        "section 1",
        "Even the schema, attributes and their possible values, is protected.",
        verdict_of(found["read"] != found["true"], part=True),
        f"Names stay at their site. At the root the class site reads, from the sets that come by, "
        f"how many attributes the other site has and how many values each: {found['read']}, and "
        f"they are {found['true']}. With a protocol for each intersection the number of calls says "
        "the same.",
    )


def _figure_2(records: list[Record]) -> Claim:
    examples = leaks_of(records)["examples"]
    right = all(one["right"] == one["days"] and one["answer"] == 1 for one in examples)
    alone, everywhere = (
        [one["path"] for one in examples if one["class_everywhere"] is where]
        for where in (False, True)
    )
    splits = {str(sorted(one["splits"].items())) for one in examples if one["class_everywhere"]}
    return claim(
        "section 3, figure 2",
        "The weather tree, and the instance that goes by S1L1, S2L2 and S2L4 to 'Yes'.",
        verdict_of(
            right and all(path == FIGURE_2 for path in alone + everywhere),
            part=right and len(splits) == 1 and all(path == FIGURE_2 for path in everywhere),
        ),
        f"The splits come out by all {len(COUNTINGS)} ways of counting, the answer is Yes, and all "
        f"{examples[0]['days']} days are classified as they were. With the class at one site, as "
        f"section 3 has it, the way is {', '.join(alone[0])}: algorithm 4 puts all leaves at the "
        f"class site. The figure's tokens ({', '.join(everywhere[0])}) need the class at all "
        "sites.",
    )


def _deviation(records: list[Record]) -> Claim:
    found = leaks_of(records)["many_keys"]
    return claim(
        "section 4",
        "Somewhat strong guarantees in the absence of collusion, beyond semi-honest sites.",
        verdict_of(found["read"] == 0),
        f"One site that encrypts each of its own elements under another key reads "
        f"{found['read']} of {found['days']} classes of the example, alone and unnoticed until it "
        "has them. Secret counts have no such keys.",
    )


def _remaining(records: list[Record]) -> Claim:
    found = leaks_of(records)["masked_sums"]
    return claim(
        "lemma 1",
        "Algorithm 2 reveals nothing but whether any attribute is left.",
        verdict_of(found["p_value"] > CHANCE),
        f"{found['sums']} masked sums on the wire are uniform as far as a chi-square test tells "
        f"(p = {found['p_value']:.2g}); the rest are points under fresh keys.",
    )


def _subcounts(records: list[Record]) -> Claim:
    ring, needed, secret = leaks_of(records)["sub_intersections"]
    learned = leaks_of(records)["learned"]
    subsets = {
        one["counting"]: sum(n for name, n in one["three"].items() if name.startswith("sub-"))
        for one in learned
    }
    outside = [name for name in ring["read"] if ring["true"][name] not in _sorted_tree(ring)]
    return claim(
        "lemmas 2 to 4",
        "A set intersection reveals the sizes for all subsets of the sites, and only these.",
        verdict_of(ring["read"] == sorted(ring["true"])),
        f"It does reveal them, {subsets['ring']} numbers among three sites. At the lowest leaves "
        f"the class site reads the classes of {', '.join(ring['read'])} over all days; "
        f"{len(outside)} of these tables are at no node of the tree. A ring of the sites that "
        f"matter still shows {len(needed['read'])} of {len(needed['true'])}, in "
        f"{subsets['needed']} numbers; secret counts {len(secret['read'])}.",
    )


def _sorted_tree(found: dict[str, Any]) -> list[list[int]]:
    return [sorted(row) for row in found["in_the_tree"]]


def _best_gain(records: list[Record]) -> Claim:
    learned = {one["counting"]: one["two"].get(GAIN, 0) for one in leaks_of(records)["learned"]}
    same = {one["path"][-1] for one in leaks_of(records)["examples"] if not one["class_everywhere"]}
    return claim(
        "lemma 5",
        "The best gain of each site is revealed; a secure maximum would show the best site alone.",
        verdict_of(learned["ring"] > 0 == learned["secret"] and len(same) == 1),
        f"On the example {learned['ring']} gains are shown; with the comparison on shares "
        f"{learned['secret']}, and the tree is the same.",
    )


def _only_these(records: list[Record]) -> Claim:
    (found,) = (one for one in leaks_of(records)["learned"] if one["counting"] == "ring")
    computed = {
        why.removeprefix("computed from: "): values
        for why, values in found["reasons"].items()
        if not why.startswith("independent")
    }
    listed = tuple(f"{part}:" for part in ("lemma 1", "lemma 2", "lemma 5", "theorem 1"))
    beyond = [why for why in computed if not why.startswith(listed)]
    said = "; ".join(f"{why} ({values} values)" for why, values in computed.items())
    return claim(
        "theorem 1",
        "Beside the tree, only subcounts of the nodes and the best gain of each site are revealed.",
        verdict_of(not beyond, part=len(beyond) < len(computed)),
        f"All that the two sites learn of each other on the example: {said}. Not in the theorem's "
        f"list: {' and '.join(beyond) or 'nothing'} (announced here; sets and calls show it, too).",
    )


def _fresh_keys(records: list[Record]) -> Claim:
    found = leaks_of(records)["repeated_elements"]
    return claim(
        "theorem 1",
        "New keys in each invocation: messages cannot be correlated across calls.",
        verdict_of(found["in_two_passes"] == 0, part=True),
        f"Of {found['elements']:,} encrypted elements in {found['passes']} passes "
        f"{found['in_two_passes']} occur in two passes. Sizes of sets are seen in every call.",
    )


def _instances(records: list[Record]) -> Claim:
    found = leaks_of(records)["instances_seen"]
    return claim(
        "theorem 2",
        "Algorithm 8 reveals nothing but the leaf that classifies an instance.",
        verdict_of(not found["told_apart"], part=True),
        f"Sites on the way learn values of others, where they need not learn the leaf: by the node "
        f"of its own that {found['at_its_nodes']} of {found['days']} days come to, or that they do "
        f"not come, the second site {'tells' if found['told_apart'] else 'cannot tell'} the days "
        "apart by the first site's outlook.",
    )


def _node_cost(records: list[Record]) -> Claim:
    rings = _rings(records)
    exact = [r["measured"]["intersections"] == r["literal"]["intersections"] for r in rings]
    example = ring_example(records)
    printed = example["literal"]["dearest_node"]
    return claim(
        "section 5",
        "A node takes c (1 + p r) set intersections.",
        verdict_of(all(exact) and printed <= example["paper"]["node"], part=all(exact)),
        f"Measured are c for each node, and c for each value that is left at a split, in "
        f"{sum(exact)} of {len(rings)} trees: c (1 + p r) at a root that is split. Algorithm 6 as "
        f"printed counts the node again for each attribute: c (1 + r + p r), {printed} and not "
        f"{example['paper']['node']} at the example's root.",
    )


def _tree_cost(records: list[Record]) -> Claim:
    every = [*_rings(records), *chosen(records, what="whole")]
    below = [r["literal"]["intersections"] <= r["paper"]["intersections"] for r in every]
    printed = [r["literal"]["calls"] <= r["paper"]["intersections"] for r in every]
    as_counted = [
        r["measured"]["intersections"] == r["literal"]["intersections"] for r in _rings(records)
    ]
    example = ring_example(records)
    over = [r["paper"]["intersections"] / r["literal"]["intersections"] for r in every]
    return claim(
        "section 5",
        "The tree takes c q (1 + p r) set intersections, on the conservative side.",
        verdict_of(all(below) and all(printed) and all(as_counted), part=all(below)),
        f"An upper bound for {sum(below)} of {len(every)} trees, as printed for {sum(printed)}: on "
        f"the example {example['paper']['intersections']} by the formula, "
        f"{example['literal']['calls']} as printed, {example['measured']['intersections']} "
        f"measured; the formula is {spread(over)} times what is needed, mostly because leaves are "
        "counted like nodes that are split.",
    )


def _used_attributes(records: list[Record]) -> Claim:
    every = [ring_example(records), *chosen(records, what="whole")]
    effect = {r["table"]: r["literal"]["all_left"] / r["literal"]["intersections"] for r in every}
    listed = ", ".join(f"{name} {factor:.2f}" for name, factor in effect.items())
    return claim(
        "section 5",
        "That fewer attributes are left further down has little effect on the count.",
        verdict_of(max(effect.values()) <= LITTLE, part=min(effect.values()) <= LITTLE),
        f"Intersections were all attributes left at every split, over those that are: {listed}.",
    )


def _one_intersection(records: list[Record]) -> Claim:
    rings = _rings(records)
    bound = [
        r["measured"]["encryptions"] <= r["measured"]["passes"] * r["paper"]["one_intersection"]
        for r in rings
    ]
    sets = [
        r["measured"]["sets_sent"] == r["measured"]["passes"] * (r["k"] ** 2 - 1) for r in rings
    ]
    largest = [r["measured"]["largest_pass"] == r["n"] * (r["k"] ** 2 - 1) for r in rings]
    return claim(
        "section 5",
        "An intersection takes k^2 encryptions of sets, k^2 sets sent, at most n k^2 elements.",
        verdict_of(all(bound) and all(sets), part=all(bound)),
        f"Within n k^2 encryptions per pass in {sum(bound)} of {len(rings)} runs; k^2 - 1 sets are "
        f"sent in each pass in {sum(sets)} (one is at the counting site already), and the largest "
        f"pass sends all n (k^2 - 1) elements in {sum(largest)}.",
    )


def _encryptions(records: list[Record]) -> Claim:
    rings = _rings(records)
    below = [r["measured"]["encryptions"] <= r["paper"]["encryptions"] for r in rings]
    over = [r["paper"]["encryptions"] / r["measured"]["encryptions"] for r in rings]
    alone = [r["paper"]["encryptions"] / r["literal"]["encryptions"] for r in rings]
    example = ring_example(records)
    return claim(
        "section 5",
        "The whole tree takes O(c q n k^2 (1 + p r)) encryptions.",
        verdict_of(all(below)),
        f"An upper bound in {sum(below)} of {len(rings)} runs: the formula is {spread(over)} times "
        f"what was measured with one pass for all values and classes, {spread(alone)} times what "
        f"one protocol per intersection takes. On the example {example['paper']['encryptions']:,} "
        f"by the formula, {example['literal']['encryptions']:,} with one protocol each, "
        f"{example['measured']['encryptions']:,} measured.",
    )


def _bits(records: list[Record]) -> Claim:
    rings = _rings(records)
    below = [r["measured"]["bytes"] <= r["paper"]["bytes"] for r in rings]
    over = [r["paper"]["bytes"] / r["measured"]["bytes"] for r in rings]
    other = [1 - r["measured"]["set_bytes"] / r["measured"]["bytes"] for r in rings]
    example = ring_example(records)
    return claim(
        "section 5",
        "The whole tree takes c q n k^2 (1 + p r) bitsize bits of communication.",
        verdict_of(all(below)),
        f"An upper bound in {sum(below)} of {len(rings)} runs, {spread(over)} times what was sent. "
        f"{percent(min(other))} to {percent(max(other))} of the bytes are not sets, which the "
        f"formula leaves out (sums, comparisons, gains, tokens, headers). On the example "
        f"{example['paper']['bytes']:,} bytes by the formula, {example['measured']['bytes']:,} "
        "measured.",
    )


def _parallel(records: list[Record]) -> Claim:
    rings = _rings(records)
    even = [r["measured"]["encryptions"] == r["k"] * r["measured"]["busiest_site"] for r in rings]
    needed = [
        r["measured"]["encryptions"] / r["measured"]["busiest_site"] / r["k"]
        for r in chosen(trees_of(records), counting="needed")
    ]
    return claim(
        "section 5",
        "Encryption can be done in parallel, k times as fast.",
        verdict_of(all(even)),
        f"Every site does exactly 1/k of all encryptions in {sum(even)} of {len(rings)} runs, and "
        f"in a pass each has another set at hand. With the sites that matter alone the busiest one "
        f"leaves {spread(needed)} of that factor. Nodes still follow each other. Encryptions "
        "were counted, not timed: the sites share one machine here.",
    )


def _classification(records: list[Record]) -> Claim:
    example = leaks_of(records)["examples"][0]
    one, every = example["one"], example["every"]
    return claim(
        "section 5",
        "Classifying an instance has no extra overhead and is comparable to ID3.",
        verdict_of(one["messages"] == 0, part=True),
        f"No intersections; but a message for every change of site, where ID3 sends none: "
        f"{one['messages']} messages and {one['bytes']} bytes for the paper's instance, "
        f"{every['messages']} and {every['bytes']:,} for {example['days']} days together, with "
        f"{every['passed_on']} instances handed on.",
    )


def _class_everywhere(records: list[Record]) -> Claim:
    mine = chosen(records, what="example")
    parts, saved = [], []
    for counting in ("ring", "needed"):
        for k in sorted({r["k"] for r in mine}):
            both = [
                next(r for r in mine if (r["k"], r["counting"]) == (k, counting) and here(r))
                for here in (
                    lambda r: r["class_at"] != "all",
                    lambda r: r["class_at"] == "all",
                )
            ]
            factor = both[0]["measured"]["encryptions"] / both[1]["measured"]["encryptions"]
            alone = both[0]["literal"]["encryptions"] / both[1]["literal"]["encryptions"]
            if counting == "ring":
                saved.append(alone)
                parts.append(f"k = {k}: {alone:.2f} with a protocol each, {factor:.2f} in passes")
            else:
                saved.append(factor)
                parts.append(f"k = {k}: {factor:.2f} with the sites that matter")
    works = all(r["is_id3"] for r in mine if r["class_at"] == "all")
    return claim(
        "section 6",
        "Easily extended to a class that all parties hold, which is significantly cheaper.",
        verdict_of(works and min(saved) >= MUCH, part=works),
        "Trees are the same. Encryptions with the class at one site over those with it at all, on "
        f"the example: {'; '.join(parts)}.",
    )


def _rings(records: list[Record]) -> list[Record]:
    return chosen(trees_of(records), counting="ring")
