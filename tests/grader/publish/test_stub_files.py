"""Stubs: the reference with a NotImplementedError in place of each marked region."""

import ast
import importlib
import inspect
import re

import pytest

from grader.base.errors import GraderFault
from grader.course import courses
from grader.publish import stub_files

ROOT = courses.PACKAGE.parent
COURSE = courses.load(ROOT)

SOLUTION = '''\
"""A module."""


# BEGIN SOLUTION(linear)
def helper():
    return 1
# END SOLUTION


def f(x):
    """Ours."""
    y = x
    # BEGIN SOLUTION(linear)
    # why

    return y
    # END SOLUTION


class C:
    def g(self):
        # BEGIN SOLUTION(adamw)
        a = 1
        return a
        # END SOLUTION

    def h(self):
        return 2
'''

STUB = '''\
"""A module."""


def f(x):
    """Ours."""
    y = x
    # TODO(linear): about 1 line.
    raise NotImplementedError("linear: see handout §7.1")


class C:
    def g(self):
        # TODO(adamw): about 2 lines.
        raise NotImplementedError("adamw: see handout §8.2")

    def h(self):
        return 2
'''


def test_regions_become_a_todo_and_a_raise():
    """The TODO counts the lines of code; a region at the left margin goes with its blanks."""
    assert STUB == stub_files.stub(SOLUTION, COURSE)


def test_a_private_method_is_left_out():
    """A region in the body of a class disappears, because a raise there would end the import."""
    source = (
        "class C:\n    x = 1\n\n    # BEGIN SOLUTION(linear)\n    def _helper(self):\n"
        "        return 1\n"
        "    # END SOLUTION\n\n    def f(self):\n        return 2\n"
    )
    stub = stub_files.stub(source, COURSE)
    assert "raise" not in stub
    assert "_helper" not in stub
    exec(compile(stub, "stub", "exec"), {})


def test_a_stub_of_a_stub_is_the_stub():
    assert STUB == stub_files.stub(STUB, COURSE) == stub_files.stub(STUB + "\n\n", COURSE)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (["# BEGIN SOLUTION(linear)", "return 1"], "the region of linear has no END SOLUTION"),
        (
            ["# BEGIN SOLUTION(liner)", "return 1", "# END SOLUTION"],
            "a solution is marked as liner, which is not a problem; did you mean linear?",
        ),
        (
            ["# BEGIN SOLUTION(linear)", "return 1", "# BEGIN SOLUTION(linear)", "# END SOLUTION"],
            "a region begins before the region of linear, which begins in line 2, has its END "
            "SOLUTION",
        ),
        *(
            ([line, "return 1"], f"a misplaced or malformed mark: {line.strip()}")
            for line in (
                "# END SOLUTION",
                "# BEGIN SOLUTION (linear)",
                "# BEGIN SOLUTION(linear) ",
                "#BEGIN SOLUTION(linear)",
            )
        ),
        (
            ["# BEGIN SOLUTION(linear)", "return 1", "# END SOLUTION(linear)"],
            "a misplaced or malformed mark: # END SOLUTION(linear)",
        ),
    ],
    ids=range(8),
)
def test_a_mark_that_is_wrong_is_our_fault(body, message):
    """A wrong mark would publish a solution or remove the code after it."""
    with pytest.raises(GraderFault) as caught:
        stub_files.stub("def f():\n" + "".join(f"    {line}\n" for line in body), COURSE)
    assert re.fullmatch(rf"line \d+: {re.escape(message)}", str(caught.value))


def test_the_committed_stubs_are_those_of_the_reference():
    assert [] == [path.name for path in stub_files.drifted(COURSE)]


@pytest.mark.parametrize("problem", COURSE.problems, ids=lambda p: p.id)
def test_every_function_of_a_problem_is_a_stub(problem):
    tree = ast.parse((ROOT / problem.path).read_text())
    found = {node.name: node for node in tree.body if hasattr(node, "name")}
    raises = f"NotImplementedError('{problem.id}: see handout §{problem.section}')"
    for name in problem.functions:
        assert raises in ast.unparse(found[name])
        assert f"Handout §{problem.section}" in ast.get_docstring(found[name])
    command = f"Handout §{problem.section} · `python -m assignment check {problem.id}`"
    assert [command in ast.get_docstring(found[n]) for n in problem.functions].count(True) == 1


def unwritten(module):
    """Yield every stub function and method with a TODO, as (qualified name, function)."""
    source = (ROOT / "assignment" / f"{module}.py").read_text()
    namespace = vars(importlib.import_module(f"assignment.{module}"))
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and "NotImplementedError" in ast.unparse(node):
            yield node.name, namespace[node.name]
        for method in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef) and "NotImplementedError" in ast.unparse(method):
                yield f"{node.name}.{method.name}", vars(namespace[node.name])[method.name]


STUBS = [
    (module, name, function) for module in COURSE.modules for name, function in unwritten(module)
]


@pytest.mark.parametrize(
    ("module", "name", "function"), STUBS, ids=[f"{m}.{n}" for m, n, _ in STUBS]
)
def test_a_stub_raises_not_implemented_error_and_nothing_else(module, name, function):
    given = inspect.signature(function).parameters.values()
    needed = [p for p in given if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in needed)
    owner = name.split(".")[0]
    problem = next(p for p in COURSE.problems if p.module == module and owner in p.functions)
    with pytest.raises(NotImplementedError) as caught:
        inspect.unwrap(function)(*[object()] * len(needed))
    assert f"{problem.id}: see handout §{problem.section}" == str(caught.value)
