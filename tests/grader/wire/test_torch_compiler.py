"""Postponing the import of torch's compiler."""

import json
import subprocess
import sys
import textwrap
import types

import pytest

from grader.course import courses
from grader.wire import torch_compiler
from tests.grader.processes import started
from tests.grader.sampling import every

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torch_compiler")]

# Runs each case that it reads in a forked process, and prints for each whether it imported the
# compiler, or how it failed.
IN_A_NEW_INTERPRETER = """
import json, os, sys, traceback
import torch
from grader.wire import torch_compiler

torch_compiler.postpone_import()
x = torch.nn.Parameter(torch.ones(3))

def run(case, writing):
    try:
        exec(case, {"torch": torch, "x": x})
        said = "torch._dynamo.eval_frame" in sys.modules
    except BaseException:
        said = traceback.format_exc()
    with open(writing, "w") as pipe:
        json.dump(said, pipe)

for line in sys.stdin:
    reading, writing = os.pipe()
    if os.fork() == 0:
        run(json.loads(line), writing)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        print(pipe.read(), flush=True)
os._exit(0)  # to free what torch has made takes half a second
"""

# What looks for the compiler, and has to work without it.
EAGER = {
    "an optimizer": """
        o = torch.optim.AdamW([x])
        x.sum().backward()
        o.step()
        o.zero_grad()
        o.load_state_dict(o.state_dict())
        assert x[0] < 1
    """,
    "a checkpointed function": """
        from torch.utils.checkpoint import checkpoint
        for reentrant in (False, True):
            checkpoint(lambda x: (x**2).sum(), x, use_reentrant=reentrant).backward()
        assert x.grad.tolist() == [4, 4, 4]
    """,
    "a dispatch mode": """
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as counter:
            torch.ones(2, 3) @ torch.ones(3, 4)
        assert counter.get_total_flops() == 48
    """,
    "a function that must not be compiled": """
        assert torch.compiler.disable(len)("abc") == 3
        assert torch._dynamo.disable(recursive=False)(len)("abc") == 3
    """,
    "einops with torch before 2.8": """
        from torch._dynamo import allow_in_graph
        assert allow_in_graph(len) is len
    """,
    "an inspection of all modules": """
        import inspect
        assert inspect.getmodule((lambda: 0).__code__) is None
    """,
}
# What needs the compiler, and gets it.
COMPILED = {
    "an import of a name": """
        from torch._dynamo import explain
        assert callable(explain)
    """,
    "a compiled function": """
        twice = torch.compile(lambda x: 2 * x, backend="eager")
        assert twice(x).tolist() == [2, 2, 2]
        # The compiler began with an import of this module, which must not have been loaded twice.
        registry = torch._dynamo.backends.registry
        assert registry.lookup_backend is torch._dynamo.lookup_backend
        assert registry.__spec__.origin.endswith("registry.py")
    """,
}


@pytest.fixture(scope="module")
def is_imported():
    """Run a case; return whether it imported the compiler, or a traceback if it failed."""
    command = [sys.executable, "-W", "error", "-c", IN_A_NEW_INTERPRETER]
    with started(command, stdin=subprocess.PIPE, stderr=None) as process:

        def ask(case):
            print(json.dumps(textwrap.dedent(case)), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield ask


@pytest.mark.parametrize(
    "source",
    [
        "f = torch.compile(g)",
        "torch.use_deterministic_algorithms(True)",
        "from torch import func",
        "torch.func.grad(f)(x)",
        "with torch.profiler.profile(): pass",
    ],
)
def test_a_submission_that_needs_the_compiler_is_recognized(source):
    assert torch_compiler.is_needed_by([b"import torch", source.encode()])


def test_the_course_itself_needs_no_compiler():
    """Otherwise every submission would take longer."""
    course = courses.load()
    sources = [course.reference_of(problem).encode() for problem in course.problems]
    stubs = [path.read_bytes() for path in (course.root / "assignment").glob("*.py")]
    others = [b"import functools", b"from torch.nn import functional as F"]
    assert not torch_compiler.is_needed_by(sources + stubs + others)


@pytest.mark.parametrize("what", [*EAGER, *every(2, COMPILED)])
def test_the_compiler_is_imported_only_for_what_needs_it(is_imported, what):
    assert is_imported((EAGER | COMPILED)[what]) is (what in COMPILED)


def test_a_compiler_that_has_been_imported_stays(monkeypatch):
    imported = types.ModuleType(torch_compiler.PACKAGE)
    monkeypatch.setitem(sys.modules, torch_compiler.PACKAGE, imported)
    torch_compiler.postpone_import()
    assert sys.modules[torch_compiler.PACKAGE] is imported
