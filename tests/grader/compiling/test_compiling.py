"""Problems with a compiler: the two steps, whose fault a failure is, and attacks on both steps.

Everything is real: the compiler, the sandboxes at both levels, ctypes and torch.compile.
"""

import re
import textwrap
from contextlib import closing

import msgspec
import pytest

from grader.base.errors import CourseFault, Status, StudentFault
from grader.course import courses, problems
from grader.course.courses import Compiling, sources_in
from grader.grading import compile_step
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.sandbox import toolchain
from grader.sandbox.box import Sandbox
from grader.submission.submissions import Submission
from kit.text import UNSAFE
from tests.grader.compiling.course import written
from tests.grader.in_the_sandbox import LEVELS
from tests.grader.processes import processes

NEEDS_COMPILER = pytest.mark.skipif(toolchain.find() is None, reason="there is no C++ compiler")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("compiling"), NEEDS_COMPILER]
HEAD = "import ctypes, os, subprocess\nfrom assignment.native import library\n"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course whose only problem is a product in C++."""
    return courses.load(written(tmp_path_factory.mktemp("course")))


@pytest.fixture(scope="module", params=LEVELS)
def box(request, course):
    """One sandbox per level, which all submissions share as in a batch."""
    with Sandbox.of(course, isolation=request.param) as running:
        yield running


def graded(course, box, source=None, **compiler):
    """The result of the only problem, for the reference or another module."""
    sources = sources_in(course.reference)
    if source is not None:
        sources["assignment/dots.py"] = (HEAD + textwrap.dedent(source)).encode()
    if compiler:
        (problem,) = course.problems
        changed = msgspec.structs.replace(problem.compiler, **compiler)
        problem = msgspec.structs.replace(problem, compiler=changed)
        course = msgspec.structs.replace(course, problems=[problem])
    result = grade(Submission("s", sources, []), course, box, explain=False)
    return result.problems[0]


def said(problem):
    """The one text that all tests of a problem have."""
    (text,) = {test.what for test in problem.tests}
    return text


def cpp(source):
    """A module whose function calls `dot` of this C++ source."""
    return f"""
SOURCE = r'''{source}'''
def dot(a, b):
    compiled = library(SOURCE)
    compiled.dot.restype = ctypes.c_double
    return compiled.dot()
"""


# --- the two steps --------------------------------------------------------------------------------


def test_the_reference_is_compiled_and_passes(course, box):
    """Twice in a row, as in a batch."""
    for _ in range(2):
        problem = graded(course, box)
        assert (Status.PASSED, 2.0) == (problem.status, problem.score)


def test_a_wrong_program_compiles_and_fails(course, box):
    """What failed is the value, not the compiler."""
    problem = graded(course, box, cpp('extern "C" double dot() { return 4; }'))
    assert (Status.FAILED, 0.0) == (problem.status, problem.score)
    assert "does not compile" not in said(problem)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('extern "C" double dot() { return x; }', r"error: .x. was not declared in this scope"),
        ('#include "nothing.h"', r"fatal error: nothing\.h: No such file"),
        ('extern "C" double dot() { return 1 }', r"error: expected .;. before"),
    ],
)
def test_a_compile_error_is_the_students_and_quotes_the_compiler(course, box, source, words):
    """The first complaint is quoted, on one line."""
    problem = graded(course, box, cpp(source))
    assert Status.FAILED == problem.status
    assert re.search(rf"^does not compile: CalledProcessError: .*{words}", said(problem))
    assert not any(c in said(problem) for c in "\n\x1b")


def test_a_stub_is_not_attempted(course, box):
    """The compile step calls the stub, too."""
    problem = graded(course, box, "def dot(a, b):\n    raise NotImplementedError('see 1.1')\n")
    assert Status.NOT_ATTEMPTED == problem.status


def test_a_machine_without_a_compiler_is_told_so_and_costs_nothing(course, monkeypatch):
    """It is a fault of the machine: the word is "missing", and no test runs."""
    monkeypatch.setattr(toolchain, "find", lambda: None)
    with Sandbox.of(course, isolation="bubblewrap") as bare:
        problem = graded(course, bare)
    assert Status.GRADER_ERROR == problem.status
    assert compile_step.MISSING == said(problem)


def test_no_compiler_is_shown_to_a_course_without_one(course):
    """Other courses keep the box that they had."""
    (problem,) = course.problems
    plain = [msgspec.structs.replace(problem, compiler=None)]
    assert not msgspec.structs.replace(course, problems=plain).compiles
    assert course.compiles


def test_solutions_of_our_own_are_compiled_where_they_run(course):
    """`grader validate` runs the reference, the mistakes and the variants in its own process."""
    submission = Submission("s", sources_in(course.reference), [])
    with closing(LocalBox()) as local:
        result = grade(submission, course, local, session=LocalSession)
    assert (Status.PASSED, 2.0) == (result.problems[0].status, result.problems[0].score)


def test_a_probe_that_does_not_exist_is_the_courses_fault(course, box):
    """The message names the file that should have it."""
    problem = graded(course, box, probe="compile_nothing")
    assert Status.GRADER_ERROR == problem.status
    assert re.search(r"a function compile_nothing in \S+/tests/probes/dots\.py", said(problem))
    with pytest.raises(CourseFault):
        compile_step._probe(course, course.problems[0], Compiling(probe="compile_nothing"))


# --- limits ---------------------------------------------------------------------------------------

RECURSION = """
template <int N> struct Deep { static const int value = Deep<N - 1>::value + 1; };
extern "C" double dot() { return Deep<1000000>::value; }
"""
SLOW = """
template <int N, int M> struct Slow {
    static constexpr long value = Slow<N - 1, M>::value + Slow<N - 1, M + 1>::value % 7;
};
template <int M> struct Slow<0, M> { static constexpr long value = M; };
extern "C" double dot() { return Slow<850, 0>::value; }
"""


def test_endless_templates_are_the_compilers_error(course, box):
    """The compiler has a limit of its own for their depth."""
    assert "template instantiation depth exceeds" in said(graded(course, box, cpp(RECURSION)))


# A compiler that meets the limit of memory may also end by a segmentation fault.
GROWS = """
def dot(a, b):
    kept = []
    while True:
        kept.append(bytes([1]) * 2**20)
"""


@pytest.mark.parametrize(
    ("source", "status", "limits"),
    [
        pytest.param(
            cpp(SLOW),
            {Status.TIMEOUT, Status.MEMORY},
            {"seconds": 2},
            marks=pytest.mark.proof,
        ),
        ("def dot(a, b):\n    while True: pass\n", {Status.TIMEOUT}, {"seconds": 1}),
        (GROWS, {Status.MEMORY}, {"memory_bytes": 48 * 2**20}),
    ],
    ids=["time", "loop", "memory"],
)
def test_too_much_of_something_is_told(course, box, source, status, limits):
    """The step has limits of its own; nothing of it is left afterwards."""
    problem = graded(course, box, source, **limits)
    assert problem.status in status, said(problem)
    assert said(problem).startswith("does not compile: ")
    assert Status.PASSED == graded(course, box).status


HUGE = 'char x[40 << 20] = {1}; extern "C" double dot() { return x[0]; }'


def test_a_huge_output_is_refused(course, box):
    """The limit is that of all compiled files together, and a file has one, too."""
    problem = graded(course, box, cpp(HUGE))
    assert problem.status in (Status.FAILED, Status.CRASHED)
    assert re.search(
        r"what it compiles takes|cannot be sent|wrote more than|link failed", said(problem)
    )
    small = graded(course, box, cache_bytes=100)
    assert re.search(r"takes [\d,]+ bytes, and 100 are the limit$", said(small))


# --- attacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["#include", "incbin"])
def test_files_of_the_machine_do_not_get_into_a_program(course, box, how):
    """Neither an include nor an assembler can read what the process itself cannot."""
    hidden = next(course.hidden.glob("*/*.py"))
    for path in ("/etc/passwd", "/etc/shadow", hidden):
        text = f'#include "{path}"' if how == "#include" else f'asm(".incbin \\"{path}\\"");'
        told = said(graded(course, box, cpp(f'{text}\nextern "C" double dot() {{ return 0; }}')))
        assert re.search(r"No such file|Permission denied|file not found", told), told
        assert "root:" not in told


LOOKS = """
def places():
    found = [p for p in ("/usr/bin/as", "/usr/bin/ld", "/usr/include/stdio.h") if readable(p)]
    try:
        subprocess.run([os.environ["CXX"], "-xc++", "-shared", "-fPIC", "-o", "/tmp/x.so", "-"],
                       input=b"int x;", check=True, capture_output=True, timeout=20)
        found.append("compiles")
    except Exception:
        pass
    return found
def readable(path):
    try:
        open(path, "rb").close()
        return True
    except OSError:
        return False
def dot(a, b):
    library('extern "C" int dot() { return 0; }')
    if len(a) > 1 and places():
        raise RuntimeError("BREACH " + " ".join(places()))
    return sum(x * y for x, y in zip(a, b))
"""


def test_when_the_tests_run_nothing_compiles(course, box):
    """The compiler's driver is there for its version, and has nothing to work with."""
    problem = graded(course, box, LOOKS)
    assert Status.PASSED == problem.status, said(problem)


WRITES = """
def dot(a, b):
    library('extern "C" int dot() { return 0; }')
    if len(a) == 1:
        return 0.0
    cache = os.environ["TORCHINDUCTOR_CACHE_DIR"] + "/native"
    done = []
    for path in [cache, os.path.realpath(cache), os.environ["GRADER_COMPILED"]]:
        for name in [*os.listdir(path), "new"]:
            for act in (lambda p: open(p, "ab").close(), os.unlink, lambda p: os.rename(p, p + "x"),
                        lambda p: os.chmod(p, 0o777), lambda p: os.mkdir(p + "y")):
                try:
                    act(f"{path}/{name}")
                    done.append(name)
                except OSError:
                    pass
    if done:
        raise RuntimeError(f"BREACH {done}")
    return sum(x * y for x, y in zip(a, b))
"""


def test_what_was_compiled_cannot_be_changed(course, box):
    """Neither by its own path nor by the one that a process sees it at."""
    problem = graded(course, box, WRITES)
    assert Status.PASSED == problem.status, said(problem)


POISON = """
def dot(a, b):
    lib = library(SOURCE)
    if len(a) == 1:
        folder = os.environ["TORCHINDUCTOR_CACHE_DIR"] + "/native"
        name, = os.listdir(folder)
        poison = 'extern "C" double dot() { return 42; }'
        subprocess.run([os.environ["CXX"], "-xc++", "-shared", "-fPIC", "-o", f"{folder}/{name}",
                        "-"], input=poison, text=True, check=True)
        return 0.0
    lib.dot.restype = ctypes.c_double
    numbers = ctypes.c_double * len(a)
    return lib.dot(numbers(*a), numbers(*b), ctypes.c_long(len(a)))
"""


def test_a_poisoned_cache_reaches_no_other_student(course, box):
    """One student replaces the library that the reference's source has the name of.

    The student's own tests then fail, which shows that the poison was in the place.
    """
    source = re.search(r'SOURCE = """.*?"""', (course.reference / "dots.py").read_text(), re.DOTALL)
    assert Status.FAILED == graded(course, box, f"{source[0]}\n{POISON}").status
    assert Status.PASSED == graded(course, box).status


CONSTRUCTOR = """
#include <unistd.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <signal.h>
static int breaches = 0;
__attribute__((constructor)) static void early() {
    if (open("/etc/passwd", O_RDONLY) >= 0) breaches += 1;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0) breaches += 10;
    if (kill(getppid(), 0) == 0 && getppid() > 1) breaches += 100;
    if (open("/tmp/../compiled/x", O_WRONLY | O_CREAT, 0600) >= 0) breaches += 1000;
    if (fork() == 0) for (;;) pause();
}
extern "C" double dot() { return breaches; }
"""
STAYS = cpp(CONSTRUCTOR).replace(
    "return compiled.dot()",
    "found = compiled.dot()\n    if found: raise RuntimeError(f'BREACH {found}')\n"
    "    return sum(x * y for x, y in zip(a, b))",
)


def test_a_constructor_runs_with_the_students_rights_only(course, box):
    """Code that runs when a library is loaded gains nothing in either step, and ends with it."""
    problem = graded(course, box, STAYS)
    assert Status.PASSED == problem.status, said(problem)
    assert Status.PASSED == graded(course, box).status
    for each in {box, box.builder()}:
        each.wait_until_ready()
        assert len(processes("PPid", each.host_pid)) <= 2


NAMES = """
def dot(a, b):
    folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    os.symlink("/etc/passwd", folder + "/link")
    open(folder + "/a b\\x1b", "w").close()
    return 0.0
"""


def test_file_names_are_checked(course, box):
    """Links are left out, and odd names are refused without being quoted."""
    problem = graded(course, box, NAMES)
    assert said(problem).endswith("what it compiles has a file name that cannot be used")
    assert not set(said(problem)) & UNSAFE


@pytest.mark.parametrize(
    "names",
    [["../x"], ["/x"], ["a/../../x"], ["a", "a/b"], ["x" * 201], ["a//b"], ["/".join("abcdefghi")]],
)
def test_a_forged_path_is_refused(names):
    """A process of the student's may answer with any text."""
    with pytest.raises(StudentFault, match="a file name that cannot be used"):
        toolchain.checked(dict.fromkeys(names, b""), 100)


# --- torch.compile --------------------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.parametrize("level", LEVELS)
def test_torch_compile_runs_what_was_compiled(level, tmp_path):
    """Its kernels come from the first step, because the second has nothing to compile with."""
    torch_course = courses.load(written(tmp_path, torch=True, seconds=100))
    sources = sources_in(torch_course.reference)
    with Sandbox.of(torch_course, isolation=level) as box:
        problem = grade(Submission("s", sources, []), torch_course, box).problems[0]
    assert (Status.PASSED, 2.0) == (problem.status, problem.score), said(problem)


# --- problems.toml --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["true", '{prob = "x"}', "{seconds = 0}", "{cache_bytes = 99_000_000}", '{probe = ""}']
)
def test_a_wrong_key_of_the_compiler_is_told_with_its_line(course, wrong):
    """The message says what is expected."""
    text = course.list_of_problems.read_text()
    changed = re.sub(r"compiler = .*", f"compiler = {wrong}", text)
    kinds = dict(courses.Limits.__annotations__.items())
    found = problems.load(changed, kinds)
    assert isinstance(found, problems.Wrong)
    assert "compiler: expected a table of probe, seconds" in found.text
    assert changed.splitlines()[found.line - 1].startswith("compiler")
