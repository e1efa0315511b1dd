"""Pictures of public models and of ledgers, as SVG for pages and with matplotlib."""

from hedgerow.reports.pictures.importances import importance_svg
from hedgerow.reports.pictures.plots import plot_model
from hedgerow.reports.pictures.shapes import shape_svg
from hedgerow.reports.pictures.trees import HiddenTree, tree_svg
from hedgerow.reports.privacy_curve import privacy_curve_svg

__all__ = [
    "HiddenTree",
    "importance_svg",
    "plot_model",
    "privacy_curve_svg",
    "shape_svg",
    "tree_svg",
]
