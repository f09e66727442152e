"""The architecture as imports: which module may import which, checked by reading every source."""

import ast
import graphlib
import subprocess
import sys
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
SHARED = {"grader.wire", *(f"grader.wire.{p.stem}" for p in (GRADER / "wire").glob("[!_]*.py"))}
# The layers of the grader: a component may import those of the layers above its line. A component
# is a folder of grader/, or a module next to these folders. Imports inside a component form no
# cycle.
FLOORS = [
    ["grader"],
    ["grader.base", "grader.wire"],
    ["grader.course", "grader.results", "grader.tools"],
    ["grader.solutions", "grader.sandbox", "grader.submission", "grader.report"],
    ["grader.grading", "grader.publish", "grader.platforms"],
    ["grader.proof", "grader.classroom"],
    ["grader.analysis"],
    ["grader.commands"],
    ["grader.__main__"],
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
WORKER = {f"grader.worker.{p.stem}" for p in (GRADER / "worker").glob("[!_]*.py")}
WORKER.add("grader.worker")


def room_of(name):
    """A module's component, such as `grader.sandbox` for grader.sandbox.sandbox, or the module."""
    return ".".join(name.split(".")[:2])


@cache
def name_of(path):
    """Return a file's module name, such as `grader.report.formats` for grader/report/formats.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes_of(path):
    """Every node of a file's syntax tree. Many tests ask for them."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path, *, top_level=False):
    """Every module that a file imports, anywhere; `from a import b` counts as a.b if it is one."""
    found = set()
    for node in nodes_of(path)[0].body if top_level else nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                file = ROOT.joinpath(*inner.split("."))
                is_module = file.with_suffix(".py").is_file() or (file / "__init__.py").is_file()
                found.add(inner if is_module else node.module)
    return frozenset(found)


def tops(names):
    return {name.split(".")[0] for name in names}


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


HIDDEN_TESTS = sorted((ROOT / "tests/hidden").glob("*/test_*.py"))


PROGRAM = [
    p for p in sources("grader") if not p.relative_to(GRADER).as_posix().startswith(COURSE_CODE)
]
TRUSTED = [p for p in PROGRAM if name_of(p) not in WORKER]
PROBES, KIT = sources("tests/probes"), sources("kit")
# The modules of the kit that also run in the student's process.
KIT_IN_THE_BOX = {"kit", *(f"kit.{name}" for name in kit.IN_THE_BOX)}
BOXED = [path for path in KIT if name_of(path) in KIT_IN_THE_BOX]
OF_TORCH = {"torch", "numpy", "einops", "jaxtyping"}
# An annotation names a type of another module; no problem needs another module to run.
ANNOTATED = [ROOT / "assignment" / f"{name}.py" for name in ("resource_accounting", "gpu")]
STUBS = [p for p in sources("assignment") if p.name != "__main__.py" and p not in ANNOTATED]
ZYGOTE = GRADER / "worker" / "zygote.py"
OTHER_WORKERS = [path for path in sources("grader/worker") if path != ZYGOTE]
IN_THE_WORKER = {"grader", *SHARED, *WORKER, *KIT_IN_THE_BOX}
SHARING = [path for path in sources("grader/wire") if path.name != "__init__.py"]
REPORT = {"grader", "kit", "rich", "msgspec", "jinja2", "markupsafe", "pygments"}
HIDDEN = [*HIDDEN_TESTS, *sources("tests/public")]
TEST = {"torch", "numpy", "einops", "pytest", "kit", "tests"}
KNOWN_TO_TESTS = {"kit.expect", "tests.hidden", *KIT_IN_THE_BOX, *map(name_of, PROBES)}
# Files, the packages that they may import besides the standard library, and of our own packages the
# modules; None for all modules.
RULES = {
    # Results and drawing libraries, but no sandbox, tests or torch.
    "reports": (sources("grader/report"), REPORT, None),
    # What both sides share, torch and NumPy; the zygote imports what submissions will import, too.
    "worker": (OTHER_WORKERS, {"torch", "numpy", "grader", "kit"}, IN_THE_WORKER),
    "zygote": ([ZYGOTE], {*OF_TORCH, "grader", "kit", "tests"}, {*IN_THE_WORKER, "tests.probes"}),
    "wire": (SHARING, {"torch", "numpy", "grader"}, SHARED),
    # Probes run where a student's code could read them: no expectation, no test and no pytest.
    "probes": (PROBES, {"torch", "numpy", "einops", "kit", "tests"},
        {*KIT_IN_THE_BOX, *map(name_of, PROBES)}),
    # The kit knows no course; what also runs in the student's process knows nothing of a test.
    "kit": ([p for p in KIT if p not in BOXED], {"torch", "numpy", "kit", "pytest"}, None),
    "kit in the box": (BOXED, {"torch", "numpy", "kit"}, KIT_IN_THE_BOX),
    "assignment": (STUBS, OF_TORCH, set()),
    "annotated": (ANNOTATED, {*OF_TORCH, "assignment"}, None),
    "its command": ([ROOT / "assignment/__main__.py"], {"kit", "flight"}, None),
    # Importing the package would run student code in the grader's process.
    "tests": ([p for p in HIDDEN if p.name != "test_cuda.py"], TEST, KNOWN_TO_TESTS),
    "CUDA tests": (sorted(ROOT.glob("tests/hidden/*/test_cuda.py")), TEST, {
        *KNOWN_TO_TESTS, *map(name_of, HIDDEN_TESTS)
    }),
    "conftest": ([ROOT / "tests/conftest.py"], {"pytest", "kit"}, None),
}  # fmt: skip
OURS = {"grader", "kit", "tests"}


@pytest.mark.parametrize("kind", RULES)
def test_a_file_imports_only_what_is_there_where_it_runs(kind):
    """A student has no grader, a box no test, and the worker nothing that it does not need."""
    paths, packages, modules = RULES[kind]
    assert paths
    for path in paths:
        names = imports(path)
        assert tops(names) - sys.stdlib_module_names <= packages, path
        if modules is not None:
            ours = {name for name in names if tops([name]) <= OURS}
            assert ours - modules == set(), path


def test_dependencies_of_the_grader_point_one_way():
    """The trusted side handles the worker, solutions and tests as files, never as modules."""
    files = ("grader.worker", "grader.solutions.reference", "tests.hidden", "assignment", "handout")
    for path in TRUSTED:
        room = room_of(name_of(path))
        assert room in FLOOR, f"{room} has no line in FLOORS"
        others = {room_of(name) for name in imports(path) if tops([name]) == {"grader"}} - {room}
        assert set() == {other for other in others if FLOOR[other] >= FLOOR[room]}, path
        assert set() == {name for name in imports(path) if name.startswith(files)}, path


def loaded(path):
    """The modules of the folders that a file asks `removable` for when it is imported."""
    run = [s for s in nodes_of(path)[0].body if not isinstance(s, (ast.FunctionDef, ast.ClassDef))]
    calls = [node for s in run for node in ast.walk(s) if isinstance(node, ast.Call)]
    folders = {c.args[0].value for c in calls if ast.unparse(c.func).startswith("removable.")}
    return {name_of(p) for p in TRUSTED if name_of(p).rpartition(".")[0] in folders}


def test_no_room_has_a_circle():
    """Any module can be the first that is imported."""
    graph = {
        name_of(p): {n for n in imports(p) | loaded(p) if room_of(n) == room_of(name_of(p))}
        for p in TRUSTED
    }
    list(graphlib.TopologicalSorter(graph).static_order())


def test_nothing_is_ever_unpickled():
    """Bytes from a student's process must never become objects, not even through a library."""
    pickling = {"pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "multiprocess"}
    unsafe = {"torch.load", "torch.save", "np.load", "numpy.load", "eval", "exec", "yaml.load"}
    found = set()
    for path in PROGRAM:
        assert set() == tops(imports(path)) & pickling, path
        calls = {ast.unparse(node.func) for node in nodes_of(path) if isinstance(node, ast.Call)}
        found |= {(name_of(path), call) for call in calls & unsafe}
    # It executes wrong solutions, which are ours.
    assert found == {("grader.grading.mistake_matching", "exec")}


def test_no_import_hides_in_a_call():
    """Only modules that import a solution, or what can be removed or is not installed, may."""
    paths = [*TRUSTED, *KIT, *PROBES]
    users = {name_of(p) for p in paths if imports(p) & {"importlib", "pkgutil"}}
    theirs = "base.removable grading.local_student grading.grade proof.changed_fields"
    theirs += " proof.course_checks wire.protocol wire.torch_compiler"
    assert users == {"kit.student", *(f"grader.{name}" for name in theirs.split())}


def test_what_has_to_start_fast_leaves_torch_and_pytest_alone():
    """The zygote's slow imports and the grader's own imports can therefore run in parallel."""
    modules = (
        *("grader.sandbox.sandbox", "grader.commands.cli", "grader.commands.analysis_commands"),
        *("grader.commands.removable.push_command", "grader.submission.submissions"),
        "grader.results.result_records",
    )
    slow = "print(sorted({'torch', 'numpy', 'pytest'} & set(sys.modules)))"
    program = f"import sys, {', '.join(modules)}; {slow}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


def test_the_handout_imports_only_problems_reference_and_figure_marks():
    """The grader, in turn, only publishes the finished build of the handout."""
    names = {name for path in sources("handout") for name in imports(path)}
    known = ("grader.solutions.reference", "grader.course.courses", "grader.base.markdown_figures")
    unknown = {name for name in names if tops([name]) == {"grader"} and not name.startswith(known)}
    assert unknown <= {"grader"}
