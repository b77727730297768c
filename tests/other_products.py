"""A plugin: everything multiplies by the library that ROPEWALK_PRODUCTS names, where it may be asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import get_args

import pytest

from ropewalk.model.decoder import decoder, products
from ropewalk.model.decoder.product_names import ProductName, Products
from ropewalk.model.runs import trace

NAME = next(one for one in get_args(ProductName) if one == os.environ["ROPEWALK_PRODUCTS"])
OTHER = Products.of(NAME)

products._IN_USE = ContextVar("products", default=OTHER)
setattr(decoder, "BY_TORCH", OTHER)  # noqa: B010 - it is not exported
trace.Trace.products = trace.RunHeader.products = OTHER

ABOUT_TORCH = ("test_costs.py", "test_products.py")
"""Files whose tests count what torch itself multiplies, or choose a library themselves."""


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Leave those out."""
    for item in items:
        if item.path.name in ABOUT_TORCH:
            item.add_marker(pytest.mark.skip("about torch's own products"))
