"""Three peers and no server: a bank, a shop and a telephone company grow one tree (Pivot).

Each has other columns about the same people; the bank knows who paid back. Two of the three may put
together all that they see, and learn nothing of the third but what the tree says. The people are
drawn by a seed. Noise in splits and leaves bounds what the tree says: epsilon is in the ledger.
"""

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from hedgerow import Attribute, Domain, PivotTreeClassifier, Target
from hedgerow.privacy import Relation

PEERS = {"bank": ["income", "debt"], "shop": ["basket", "returns"], "telephone": ["calls"]}
EPSILON = 2.0


def people(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw people and whether they paid back."""
    rng = np.random.default_rng(3)
    names = [name for columns in PEERS.values() for name in columns]
    table = pd.DataFrame(rng.uniform(0, 100, (n, len(names))), columns=names)
    good = (table["debt"] < 50) | (table["basket"] > 70)
    return table, np.where(rng.random(n) < np.where(good, 0.9, 0.1), "yes", "no")


def main() -> None:
    """Train among the peers; print who has learned what, at which epsilon, and how good it is."""
    table, paid = people(3000)
    train, test = table[:2000], table[2000:]
    domain = Domain(
        attributes=tuple(
            Attribute(name=name, kind="numeric", bounds=(0, 100), bins=10) for name in table
        ),
        target=Target(name="paid", classes=("no", "yes")),
        capacity=2000,
    )
    model = PivotTreeClassifier(
        domain=domain, max_depth=2, noise="splits+leaves", epsilon=EPSILON
    ).fit_peers([train[columns] for columns in PEERS.values()], ys=[paid[:2000], None, None])

    print("Epsilon of the tree, from the ledger")
    print(f"  everybody else: epsilon {model.privacy_.total('public').epsilon:.3g}")
    # Peers know who is in the table: to them the promise is about what a record says (replace).
    for number, name in enumerate(PEERS):
        total = model.privacy_.total(f"peer {number}", Relation.REPLACE)
        print(f"  {name}: epsilon {total.epsilon:.3g}")
    print(model.privacy_)
    print("\nOpened to the telephone company")
    for row in model.what_was_learned_["peer 2"]:
        print(f"  {row['name']}: {row['values']} values")

    plain = DecisionTreeClassifier(max_depth=2, random_state=0).fit(train, paid[:2000])
    print("\nAccuracy on people held out")
    print(f"  always 'yes'                      {np.mean(paid[2000:] == 'yes'):.3f}")
    print(f"  three peers                       {model.score(test, paid[2000:]):.3f}")
    print(f"  scikit-learn, all in one place    {plain.score(test, paid[2000:]):.3f}")
    asker = model.privacy_.total("peer 0").epsilon
    print(
        f"\nThe bank asked for these answers, which are exact about who is asked: epsilon {asker}"
    )


if __name__ == "__main__":
    main()
