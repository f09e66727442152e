"""The sandboxes that several files share."""

import shutil

import pytest

from tests.grader.in_the_sandbox import COURSE, MIB, plain_box


@pytest.fixture(scope="session")
def right(tmp_path_factory):
    """A folder to submit, in which every solution is right."""
    folder = tmp_path_factory.mktemp("right") / "assignment"
    folder.mkdir()
    for module in COURSE.modules:
        shutil.copy(COURSE.reference / f"{module}.py", folder)
    return folder.parent


@pytest.fixture(scope="session")
def by_landlock():
    with plain_box("landlock", scratch_bytes=8 * MIB) as sandbox:
        yield sandbox
