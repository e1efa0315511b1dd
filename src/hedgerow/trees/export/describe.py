"""What a boosted model is, in words: how its functions add up, and of which attributes they are."""

from __future__ import annotations

import numpy as np

from hedgerow.trees.boosted import Boosted


def describe(model: Boosted) -> str:
    """Return a few lines: what the sum is, where it starts, and one line for each function.

    Parameters
    ----------
    model : Boosted

    Returns
    -------
    str
        Without a line break at the end.
    """
    count = len(model.trees)
    noun = "1 function" if count == 1 else f"{count:,} functions"
    names = [f"  {number}: {function_caption(model, number)}" for number in range(count)]
    return "\n".join([f"boosted model: {_meaning(model)}", _base(model), f"{noun}:", *names])


def function_caption(model: Boosted, number: int) -> str:
    """Return the attributes of a function, and the class it is for, if there are more than two.

    Parameters
    ----------
    model : Boosted
    number : int
        From 0.
    """
    tree = model.trees[number]
    used = np.unique(tree.feature[tree.feature >= 0])
    names = [model.domain.attributes[int(feature)].name for feature in used]
    of = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    target = model.domain.target
    column = ""
    if model.n_scores > 1 and target is not None and target.classes is not None:
        column = f", for class {target.classes[number % model.n_scores]!r}"
    return f"{f'of {of}' if of else 'of no attribute, a constant'}{column}"


def _meaning(model: Boosted) -> str:
    target = model.domain.target
    assert target is not None
    if target.classes is None:
        return f"base value and functions add up to {target.name!r}"
    if model.link == "logistic":
        return (
            f"base value and functions add up to the log-odds of {target.name!r} being "
            f"{target.classes[1]!r}"
        )
    return (
        f"base value and functions add up to one score for each class of {target.name!r}; "
        "the probabilities are their softmax"
    )


def _base(model: Boosted) -> str:
    target = model.domain.target
    starts = [f"{start:.6g}" for start in model.start.tolist()]
    if model.n_scores > 1 and target is not None and target.classes is not None:
        pairs = zip(target.classes, starts, strict=True)
        return "base values: " + ", ".join(f"{name!r} {start}" for name, start in pairs)
    return f"base value: {starts[0]}"
