"""Public trees and forests, learners over counts, drawing and export."""

from hedgerow.trees.export.onnx import to_onnx
from hedgerow.trees.export.sklearn import to_sklearn
from hedgerow.trees.export.svg import to_svg
from hedgerow.trees.export.text import to_text
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.grow_tree import grow_cart, grow_forest, grow_id3
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.growing.private import grow_private, plan_private
from hedgerow.trees.importance import impurity_decrease
from hedgerow.trees.model import read_model, write_model
from hedgerow.trees.tree import SplitKind, Tree

__all__ = [
    "Forest",
    "Limits",
    "SplitKind",
    "Tree",
    "grow_cart",
    "grow_forest",
    "grow_id3",
    "grow_private",
    "impurity_decrease",
    "plan_private",
    "read_model",
    "to_onnx",
    "to_sklearn",
    "to_svg",
    "to_text",
    "write_model",
]
