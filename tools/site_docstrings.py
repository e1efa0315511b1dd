"""Show on the site the docstrings of estimators as `help` prints them, with all parameters."""

from __future__ import annotations

from typing import Any

import griffe

from hedgerow.estimators.described import Described


class EstimatorDocstrings(griffe.Extension):
    """Takes them from the classes: their text in the sources is without what options say."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the docstring of an estimator."""
        if ".estimators." in cls.path and cls.docstring is not None and cls.is_public:
            found = griffe.dynamic_import(cls.path)
            if isinstance(vars(found).get("__doc__"), Described):
                cls.docstring.value = found.__doc__
