"""The architecture as imports: which module may import which, checked by reading every source."""

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import kit

# One worker reads each source once.
pytestmark = pytest.mark.xdist_group("sources")

ROOT = Path(__file__).resolve().parent.parent.parent
GRADER = ROOT / "grader"
# These folders belong to the course, not to the program.
COURSE_CODE = ("solutions/reference", "course_files")

# The modules that both the grader and the sandbox load.
SHARED = {
    "grader.wire",
    *(f"grader.wire.{p.stem}" for p in (GRADER / "wire").glob("[!_]*.py")),
}
# The layers of the grader: a component may import those of the layers above its line. A component
# is a folder of grader/, or a module next to these folders. Imports inside a component form no
# cycle.
FLOORS = [
    ["grader"],
    ["grader.base", "grader.wire"],
    ["grader.course", "grader.results", "grader.tools"],
    ["grader.solutions", "grader.sandbox", "grader.submission", "grader.report"],
    ["grader.grading", "grader.publish", "grader.gradescope", "grader.similarity"],
    ["grader.proof", "grader.classroom"],
    ["grader.analysis"],
    ["grader.commands"],
    ["grader.__main__"],
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
WORKER = {
    "grader.worker",
    *(f"grader.worker.{p.stem}" for p in (GRADER / "worker").glob("[!_]*.py")),
}


def room_of(name):
    """Return a module's component, such as `grader.sandbox` for grader.sandbox.box.

    A module outside these folders is a component of its own.
    """
    return ".".join(name.split(".")[:2])


def name_of(path):
    """Return a file's module name, such as `grader.report.pages` for grader/report/pages.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes_of(path):
    """Every node of a file's syntax tree. Many tests ask for them."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path, *, top_level=False):
    """Every module that a file imports, at any place in the file.

    `from a import b` counts as a.b if that is a module.
    """
    found = set()
    for node in nodes_of(path)[0].body if top_level else nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                file = ROOT.joinpath(*inner.split("."))
                found.add(
                    inner
                    if file.with_suffix(".py").is_file() or (file / "__init__.py").is_file()
                    else node.module
                )
    return frozenset(found)


def tops(names):
    """The top-level packages of these modules."""
    return {name.split(".")[0] for name in names}


def sources(*folders):
    """The Python files of some folders of the checkout."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


HIDDEN_TESTS = sorted((ROOT / "tests/hidden").glob("*/test_*.py"))


def ids(paths):
    """The paths of files, as ids of tests."""
    return [str(path.relative_to(ROOT)) for path in paths]


PROGRAM = [
    p for p in sources("grader") if not p.relative_to(GRADER).as_posix().startswith(COURSE_CODE)
]
TRUSTED = [p for p in PROGRAM if name_of(p) not in WORKER]
REPORTS = sources("grader/report")
PUBLIC = [
    *sources("assignment", "kit", "tests/public", "tests/probes"),
    *HIDDEN_TESTS,
    ROOT / "tests/conftest.py",
]
# The modules of the kit that also run in the student's process.
KIT_IN_THE_BOX = {"kit", *(f"kit.{name}" for name in kit.IN_THE_BOX)}


@pytest.mark.parametrize("path", TRUSTED, ids=ids(TRUSTED))
def test_dependencies_of_the_grader_point_one_way(path):
    """A component imports only from layers listed above its own, anywhere in its files."""
    room = room_of(name_of(path))
    assert room in FLOOR, f"{room} has no line in FLOORS"
    others = {room_of(name) for name in imports(path) if tops([name]) == {"grader"}} - {room}
    assert set() == {other for other in others if FLOOR[other] >= FLOOR[room]}


def test_no_room_has_a_circle():
    """The imports inside a component have no cycle either."""
    graph = {
        name_of(p): {n for n in imports(p) if room_of(n) == room_of(name_of(p))} for p in TRUSTED
    }
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("path", TRUSTED, ids=ids(TRUSTED))
def test_the_trusted_side_never_imports_the_worker_or_a_solution(path):
    """The trusted side handles them as files, never as modules."""
    forbidden = ("grader.worker", "grader.solutions.reference", "tests.hidden", "assignment")
    assert set() == {name for name in imports(path) if name.startswith(forbidden)}


@pytest.mark.parametrize("path", REPORTS, ids=ids(REPORTS))
def test_reports_know_results_alone(path):
    """Reports import results and drawing libraries, but no sandbox, tests or torch."""
    allowed = {
        "grader.results.records",
        "grader.base.errors",
        "grader.base.files",
        "kit.text",
        "grader.base.markdown_figures",
        "grader.base.removable",
        "grader.course.policies",
        "grader.report",
    }
    inner = {
        name
        for name in imports(path)
        if name.split(".")[0] == "grader" and not name.startswith("grader.report.")
    }
    assert inner <= allowed
    assert tops(imports(path)) - sys.stdlib_module_names <= {
        "grader",
        "kit",
        "rich",
        "msgspec",
        "jinja2",
        "markupsafe",
        "pygments",
    }


@pytest.mark.parametrize("path", sources("grader/worker"), ids=ids(sources("grader/worker")))
def test_the_worker_imports_little(path):
    """The worker imports the standard library, torch, numpy, and what both sides share.

    The zygote also imports the probes and what submissions will import.
    """
    warm = {"einops", "jaxtyping", "kit", "tests"} if path.name == "zygote.py" else {"kit"}
    names = imports(path)
    assert tops(names) - sys.stdlib_module_names <= {"torch", "numpy", "grader", *warm}
    assert {n for n in names if n.split(".")[0] == "grader"} <= {
        "grader",
        *SHARED,
        *WORKER,
    }


@pytest.mark.parametrize("name", sorted(SHARED - {"grader.wire"}))
def test_what_both_sides_share_imports_only_what_both_have(name):
    path = (ROOT / name.replace(".", "/")).with_suffix(".py")
    assert tops(imports(path)) - sys.stdlib_module_names <= {"torch", "numpy", "grader"}
    assert {n for n in imports(path) if tops([n]) == {"grader"}} <= SHARED


@pytest.mark.parametrize("path", PROGRAM, ids=ids(PROGRAM))
def test_nothing_is_ever_unpickled(path):
    """Bytes from a student's process must never become objects, not even through a library.

    The students' processes themselves read the code that another such process has compiled.
    """
    at_home = {"marshal"} if name_of(path) == "grader.worker.test_process" else set()
    assert at_home == tops(imports(path)) & {
        "pickle",
        "dill",
        "cloudpickle",
        "marshal",
        "shelve",
        "joblib",
        "multiprocess",
    }
    calls = {ast.unparse(node.func) for node in nodes_of(path) if isinstance(node, ast.Call)}
    # mistake_matching executes wrong solutions, which are ours.
    allowed = {"exec"} if name_of(path) == "grader.grading.mistake_matching" else set()
    assert (
        set()
        == calls
        & {"torch.load", "torch.save", "np.load", "numpy.load", "eval", "exec", "yaml.load"}
        - allowed
    )


@pytest.mark.parametrize("path", PUBLIC, ids=ids(PUBLIC))
def test_the_course_never_imports_the_grader(path):
    """A student has the assignment, the public tests, the probes and the kit, but no grader.

    Hidden tests do not need the grader.
    """
    assert "grader" not in tops(imports(path))


@pytest.mark.parametrize("path", sources("tests/probes"), ids=ids(sources("tests/probes")))
def test_probes_judge_nothing(path):
    """Probes run where a student's code could read them, so they contain nothing of a test.

    They import no expectation, no test and no pytest.
    """
    names = imports(path)
    assert tops(names) - sys.stdlib_module_names <= {"torch", "numpy", "einops", "kit", "tests"}
    assert {n for n in names if n.split(".")[0] in ("kit", "tests")} <= {
        *KIT_IN_THE_BOX,
        *(name_of(p) for p in sources("tests/probes")),
    }


@pytest.mark.parametrize("path", sources("kit"), ids=ids(sources("kit")))
def test_the_kit_imports_only_what_every_student_has(path):
    """It knows no course; what also runs in the student's process knows nothing of a test."""
    names = imports(path)
    is_in_the_box = name_of(path) in KIT_IN_THE_BOX
    tools = set() if is_in_the_box else {"pytest"}
    assert tops(names) - sys.stdlib_module_names <= {"torch", "numpy", "kit", *tools}
    if is_in_the_box:
        assert {n for n in names if n.split(".")[0] == "kit"} <= KIT_IN_THE_BOX


@pytest.mark.parametrize("path", sources("assignment"), ids=ids(sources("assignment")))
def test_the_assignment_imports_what_the_sandbox_has(path):
    """The sandbox has no other packages; the assignment's commands run on a student's machine."""
    allowed = (
        {"kit", "flight"}
        if path.name == "__main__.py"
        else {"torch", "numpy", "einops", "jaxtyping"}
    )
    if path.name in ("resource_accounting.py", "gpu.py"):
        # An annotation names a type of another module; no problem needs another module to run.
        allowed |= {"assignment"}
    assert tops(imports(path)) - sys.stdlib_module_names <= allowed


HIDDEN = [*HIDDEN_TESTS, *sources("tests/public")]


@pytest.mark.parametrize("path", HIDDEN, ids=ids(HIDDEN))
def test_tests_see_the_student_through_the_fixture_alone(path):
    """Importing the package would run student code in the grader's process."""
    names = imports(path)
    assert tops(names) - sys.stdlib_module_names <= {
        *("torch", "numpy", "einops", "pytest", "kit", "tests")
    }
    inner = {n for n in names if n.split(".")[0] in ("kit", "tests")}
    # A test may apply to both devices.
    both = ("tests.hidden.",) if path.name == "test_cuda.py" else ()
    known = {"kit.expect", "tests.hidden", *KIT_IN_THE_BOX}
    assert all(n in known or n.startswith(("tests.probes", *both)) for n in inner)


def test_no_class_name_has_two_meanings():
    """Each class of the program has a name of its own, also without a leading underscore.

    The course's solutions are not part of the program.
    """
    program = [p for p in [*PROGRAM, *sources("kit")] if "vendor" not in p.parts]
    names = Counter(
        node.name.lstrip("_")
        for path in program
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    )
    assert [] == [name for name, count in names.items() if count > 1]


def test_no_import_hides_in_a_call():
    """Only modules that import a solution may use importlib.

    These are the worker, the probes, those that run one of our solutions in their own process, and
    what imports the modules that a course preloads or forbids, torch's compiler, or what the codec
    knows of a library, and what can be removed.
    """
    users = {name_of(p) for p in [*TRUSTED, *PUBLIC] for n in imports(p) if n == "importlib"}
    assert users == {
        "kit.student",
        "grader.base.removable",
        "grader.grading.local_student",
        "grader.grading.grade",
        "grader.proof.course_checks",
        "grader.wire.protocol",
        "grader.wire.torch_compiler",
    }


@pytest.mark.parametrize(
    "module",
    [
        "grader.sandbox.box",
        "grader.commands.cli",
        "grader.commands.analysis",
        "grader.commands.more.similar",
        "grader.submission.submissions",
        "grader.results.records",
    ],
)
def test_what_has_to_start_fast_leaves_torch_and_pytest_alone(module):
    """The zygote's slow imports and the grader's own imports can therefore run in parallel."""
    program = (
        f"import sys, {module}; print(sorted({{'torch', 'numpy', 'pytest'}} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "[]" == done.stdout.strip()


HANDOUT = sources("handout")
HANDOUT_LAYERS = [
    ["handout", "handout.conf", "handout.site"],
    [
        f"handout.site.{name}"
        for name in ("agreement", "formulas", "numbers", "svg", "mathml", "browser", "micro_batch")
    ],
    ["handout.site.wren"],
    [
        f"handout.site.{name}"
        for name in (
            "calculators",
            "measured",
            "pdf",
            "stubs",
            *(
                f"pictures.{part}"
                for part in ("tensors", "accounting", "training", "prefetching", "flights")
            ),
        )
    ],
    ["handout.site.pictures", "handout.site.quizzes"],
    ["handout.site.notebooks"],
    ["handout.site.extension"],
    ["handout.site.__main__"],
]
HANDOUT_RANK = {name: rank for rank, names in enumerate(HANDOUT_LAYERS) for name in names}


@pytest.mark.parametrize("path", HANDOUT, ids=ids(HANDOUT))
def test_dependencies_of_the_handout_point_one_way(path):
    """The handout imports only the grader's problems, reference and figure marks."""
    name = name_of(path)
    assert name in HANDOUT_RANK, f"HANDOUT_LAYERS has no line for {name}"
    inner = {other for other in imports(path) if tops([other]) == {"handout"}}
    assert set() == {other for other in inner if HANDOUT_RANK[other] >= HANDOUT_RANK[name]}
    known = {
        other
        for other in imports(path)
        if tops([other]) == {"grader"} and not other.startswith("grader.solutions.reference")
    }
    assert known <= {"grader", "grader.course.courses", "grader.base.markdown_figures"}


def test_the_grader_does_not_import_the_handout():
    """The grader only publishes the finished build of the handout."""
    assert [path.name for path in PROGRAM if "handout" in tops(imports(path))] == []
