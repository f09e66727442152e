"""A setup's hash covers everything that a result depends on, including files that affect scores."""

import msgspec

from grader.classroom import setups
from grader.course.courses import PACKAGE
from tests.grader.classroom.test_gradebook import SETUP
from tests.grader.test_layers import imports

# Grading imports these, but they affect no result: printing, files, the naming of mistakes, and
# rules that a gradebook applies to results.
DECIDES_NOTHING = {
    "grader",
    "grader.base",
    "grader.course",
    "grader.base.files",
    "grader.base.interrupts",
    "grader.base.temporary",
    "kit.text",
    "grader.base.markdown_figures",
    "grader.base.removable",
    "grader.course.policies",
}


def test_all_that_grading_imports_is_in_the_hash():
    """A new module that affects scores cannot be left out of the hash."""
    found, left = set(), {"grader.grading.grade"}
    while left:
        name = left.pop()
        found.add(name)
        path = PACKAGE.parent.joinpath(*name.split("."))
        file = path.with_suffix(".py")
        path = file if file.is_file() else path / "__init__.py"
        left |= {n for n in imports(path) if n.split(".")[0] == "grader"} - found
    hashed = tuple(
        "grader." + name.removesuffix(".py").replace("/", ".") for name in setups.DECIDES
    )
    left_out = {name for name in found - DECIDES_NOTHING if not name.startswith(hashed)}
    assert all(name.startswith("grader.solutions") for name in left_out)


def test_each_field_changes_the_hash_and_is_told():
    others = {"seed": 1, "problems": ["linear", "adamw"]}
    for field in setups.Setup.__struct_fields__:
        other = msgspec.structs.replace(SETUP, **{field: others.get(field, "another")})
        assert other.sha256 != SETUP.sha256
        if field not in ("with_cuda", "rest"):
            assert len(setups.differences(SETUP, other)) == 1
    assert setups.differences(SETUP, SETUP) == []
