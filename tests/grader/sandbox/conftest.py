"""The sandboxes that several files share."""

from contextlib import ExitStack
from functools import cache

import pytest

from tests.grader.in_the_sandbox import MIB, plain_box


@pytest.fixture(scope="session")
def plain():
    """A function that returns the sandbox of a level that has no torch; one serves all tests."""
    with ExitStack() as stack:
        yield cache(lambda level: stack.enter_context(plain_box(level, scratch_bytes=8 * MIB)))
