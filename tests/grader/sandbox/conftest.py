"""The sandboxes that several files share."""

import pytest

from tests.grader.in_the_sandbox import MIB, plain_box


@pytest.fixture(scope="session")
def by_landlock():
    with plain_box("landlock", scratch_bytes=8 * MIB) as sandbox:
        yield sandbox
