"""Run hostile submissions, which must earn nothing and harm nobody.

A file of attacks/ holds several attacks. Each begins with `# %% name`, is the source of one module
of an otherwise right submission, and begins with the lines above the first of them, which all
share. In archives_and_sources.py, each function is an attack: it builds a hostile archive or
returns a source that an editor cannot show. An attack's docstring ends with a header; what the
first docstring of the file says holds for all its attacks, unless theirs say otherwise (`-`
removes it):

    group:      one of GROUPS
    target:     the problem under attack; the attack replaces its module
    reference:  before: the right solution precedes the attack in its module
    limits:     tighter limits of the target's tests, as in `wall_seconds=0.5`
    tests:      words: `make test` runs only the target's tests whose names contain one of them, as
                in `a | b`, and `make proof` runs all; for attacks that do the same in each test
    status:     the statuses that the problem may have
    earns:      the points of the target: 0 (default), less (than full) or full
    open:       why the attack still earns more; the test fails once it does not
    stronger:   why bubblewrap stops the attack and the second level (Landlock) does not
    holds:      what must hold, in one sentence

All attacks share one sandbox per level of isolation. Each attack is graded at both levels, together
with one honest problem. (`make test` runs a sample: of the attacks on the sandbox itself, at least
a third at each level; and an eighth of the others, at the first level, as both levels share the
code that they attack.) Whatever the attack does, the honest problem keeps its points, the result
contains no secret and no control character, and no process or file is left. An attack that gains
forbidden access raises "BREACH", and that word must not appear in any message.
"""

import ast
import copy
import gc
import inspect
import os
import re
import tempfile
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec
import pytest

from grader.base.errors import Status
from grader.course import courses
from grader.grading import hidden_tests
from grader.grading.grade import grade, import_libraries
from grader.report import json_report, terminal_report
from grader.report.report_contents import Reported
from grader.sandbox import child_process, gpus
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from grader.submission import submissions
from grader.submission.submissions import Submission
from kit.safe_text import UNSAFE
from tests.grader.attacks import archives_and_sources
from tests.grader.compared_results import told
from tests.grader.in_the_sandbox import NEEDS_LANDLOCK
from tests.grader.ordinary_user import NEEDS_ROOT, passed_by_an_ordinary_user
from tests.grader.processes import processes

pytestmark = pytest.mark.slow

ATTACKS = Path(__file__).parent / "attacks"
GROUPS = {
    "read the answers", "forge the verdict", "inject code", "lie about types", "hostile files",
    "exhaust the host", "survive or spread", "attack the reader", "cheat the exercise",
}  # fmt: skip
# The levels of isolation differ only in how they stop these groups.
OF_THE_SANDBOX = {"read the answers", "exhaust the host", "survive or spread"}
# They take a second, and files of tests/grader/sandbox or the attacks beside them do the same.
DEAR = {
    "children_that_nobody_waits_for", "endless_output", "fork_bomb_at_full_speed",
    "memory_of_other_programs", "memory_without_a_first_thread",
}  # fmt: skip
KEYS = {
    "group", "target", "reference", "limits", "tests", "status", "earns", "open",
    "stronger", "holds",
}  # fmt: skip
BEGINS = re.compile(r"^# %% (\w+)\n", re.MULTILINE)
# The name of every file that an attack tries to leave on the host.
ESCAPED = "attack-escaped"
COURSE = courses.load()


@dataclass(frozen=True)
class Attack:
    """One attack and its header: the text of a module, or a function that returns or builds one."""

    name: str
    header: dict[str, str]
    made: str | Callable[..., bytes | Path]
    in_every_test: bool = False

    @property
    def is_archive(self) -> bool:
        return callable(self.made) and bool(inspect.signature(self.made).parameters)

    @property
    def target(self) -> courses.Problem:
        words = (word.split("=") for word in self.header.get("limits", "").split())
        limits = {key: msgspec.json.decode(value) for key, value in words}
        problem = COURSE.problem(self.header["target"])
        return msgspec.structs.replace(problem, limits=problem.limits | limits)

    @property
    def control(self) -> courses.Problem:
        """A problem of another module with few tests, which keeps its honest solution."""
        if self.target.module != "tensor_memory":
            return COURSE.problem("tensor_memory")
        return COURSE.problem("linear" if self.is_archive else "lr_schedule")

    @property
    def statuses(self) -> set[str]:
        return set(self.header.get("status", "passed").replace(" ", "").split(","))

    @property
    def earns(self) -> str:
        return self.header.get("earns", "0")

    def runs(self, test: pytest.Item) -> bool:
        """Whether a test is run for this attack."""
        if self.in_every_test or courses.problem_of_file(test.nodeid) != self.target.id:
            return True
        return any(word.strip() in test.name for word in self.header.get("tests", "").split("|"))

    def submitted(self, folder: Path) -> Submission:
        if self.is_archive:
            return submissions.read(self.made(folder))
        source = self.made() if callable(self.made) else self.made.encode()
        if "reference" in self.header:
            source = reference(self.target.path) + b"\n\n" + source
        return Submission(self.name, honest_sources() | {self.target.path: source}, [])


def header(docstring: str) -> dict[str, str]:
    found = (re.fullmatch(r"([a-z]+): *(.+)", line) for line in docstring.splitlines()[1:])
    return dict(line.groups() for line in found if line)


def attacks_of(path: Path) -> Iterator[Attack]:
    """The attacks of a file, which share the lines above the first."""
    shared, *parts = BEGINS.split(path.read_text())
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        both = [header(ast.get_docstring(ast.parse(part)) or "") for part in (shared, text)]
        keys = {key: value for key, value in (both[0] | both[1]).items() if value != "-"}
        yield Attack(name, keys, shared + text)


ALL = [
    Attack(name, header(inspect.getdoc(function)), function)
    for name, function in vars(archives_and_sources).items()
    if inspect.isfunction(function) and "holds:" in (function.__doc__ or "")
]
ALL += [attack for path in sorted(ATTACKS.glob("*.py")) for attack in attacks_of(path)]


def reference(path: str) -> bytes:
    return (COURSE.reference / Path(path).name).read_bytes()


def honest_sources() -> dict[str, bytes]:
    return {f"assignment/{module}.py": reference(f"{module}.py") for module in COURSE.modules}


# --- planted secrets, which must not leak ---------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    """Two secrets for the attacks: in the environment, and in a file that anyone may write."""
    tokens = [f"SECRET-{uuid.uuid4().hex}" for _ in range(2)]
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="attack-canary-", dir="/tmp") as folder,
    ):
        Path(folder).chmod(0o777)
        canary = Path(folder, "gradebook.csv")
        canary.write_text(tokens[1])
        canary.chmod(0o666)
        patch.setenv("ATTACK_SECRET", tokens[0])
        yield tokens
        assert canary.read_text() == tokens[1]
        assert [path.name for path in Path(folder).iterdir()] == [canary.name]


# One worker of pytest-xdist runs all attacks of a level, so each level has one sandbox. The second
# level needs root; without root its tests are skipped with that reason.
LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.xdist_group("bubblewrap")),
    pytest.param("landlock", marks=[pytest.mark.xdist_group("landlock"), NEEDS_LANDLOCK]),
]


# They try all files, folders, namespaces and sockets, where the tests of Landlock try a few.
WALKS = {"read_every_file", "hidden_folders_that_are_writable", "new_namespaces"}
WALKS |= {"sockets_of_a_pair"}


def sampled(level: str) -> set[str]:
    """The names of the attacks that `make test` runs at a level, which are others at each level."""
    is_first = level == LEVELS[0].values[0]
    names = set()
    for group in GROUPS:
        them = [attack.name for attack in ALL if attack.header["group"] == group]
        names |= {*(them[is_first::3] if group in OF_THE_SANDBOX else them[2::8] * is_first)}
    return (names | (set() if is_first else WALKS)) - DEAR


def at_each_level(attacks: list[Attack]):
    """Every attack at every level, marked `proof` where `make test` skips it."""
    both = []
    for level in LEVELS:
        (name,), marks = level.values, level.marks
        often = sampled(name)
        for attack in attacks:
            more = [] if attack.name in often else [pytest.mark.proof]
            case = f"{name}-{attack.name}"
            both.append(pytest.param(name, attack, id=case, marks=[*marks, *more]))
            if "tests" in attack.header or attack.header["group"] in OF_THE_SANDBOX:
                whole = replace(attack, in_every_test=True)
                for_proof = [*marks, pytest.mark.proof]
                both.append(pytest.param(name, whole, id=f"{case}-whole", marks=for_proof))
    return pytest.mark.parametrize(("sandbox", "attack"), both, indirect=["sandbox"])


@pytest.fixture(scope="module")
def sandboxes(planted, tmp_path_factory):
    """One sandbox per level, shared by all attacks; after closing, no file or mount is left."""
    import_libraries(COURSE)
    gc.freeze()  # makes the many garbage collections in a run of pytest faster
    folder, before = tmp_path_factory.mktemp("sandboxes"), mounts_of_boxes()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(child_process, "TRACEBACK_SECONDS", 0.2)  # many attacks print none
        patch.setattr("grader.grading.grade.check_cpu", lambda _: None)  # the control shows as much
        yield cache(lambda level: stack.enter_context(one_for_all(level)))
    assert list(folder.iterdir()) == []
    assert mounts_of_boxes() == before


def mounts_of_boxes() -> int:
    """The mounts that bubblewrap made; not 0 where the tests themselves run in a box."""
    return Path("/proc/self/mountinfo").read_text().count("newroot")


@contextmanager
def one_for_all(level):
    """A sandbox of this level, which must leave no process.

    With ATTACKS_WITH_GPU in the environment, it has this machine's GPU; see scripts/prove_gpu.py.
    """
    with ExitStack() as stack:
        has_gpu = "ATTACKS_WITH_GPU" in os.environ and level == "bubblewrap"
        gpu = stack.enter_context(gpus.opened()) if has_gpu else None
        box = stack.enter_context(Sandbox.of(COURSE, isolation=level, gpu=gpu))
        yield box
        pid, uid = box.host_pid, box.facts["uid"]
    assert not Path(f"/proc/{pid}").exists()
    assert uid < 10**9 or processes("Uid", uid) == []


@pytest.fixture(params=LEVELS)
def sandbox(request, sandboxes):
    """The shared sandbox of a level.

    Keep the scope of one test: with a wider scope, each attack would get a sandbox of its own.
    """
    return sandboxes(request.param)


def escaped(uid: int) -> list[Path]:
    """Files on the host that an attack created: by their name, or the user id of the sandbox."""
    folders = [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home()]
    entries = [entry for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    own = [entry for entry in entries if uid > 10**9 and owner(entry) == uid]
    return own + [entry for entry in entries if ESCAPED in entry.name]


def owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


@cache
def private_lines_of(problem_id: str) -> set[str]:
    """Lines of the solution and the hidden tests, without what a report shows of docstrings."""
    problem = COURSE.problem(problem_id)
    marked, source = r"# BEGIN SOLUTION.*?\n(.*?)# END SOLUTION", reference(problem.path).decode()
    solution = re.findall(marked, source, re.DOTALL)
    tests = "\n".join(path.read_text() for path in COURSE.hidden_tests(problem).values())
    shown = {
        line
        for node in ast.walk(ast.parse(tests))
        if isinstance(node, (ast.FunctionDef, ast.Module))
        for line in (ast.get_docstring(node) or "").split("\n\n")[0].splitlines()
    }
    lines = {line.strip() for line in (*"\n".join(solution).splitlines(), *tests.splitlines())}
    return {line for line in lines if len(line) > 30 and line.strip('"') not in shown}


def assert_harmless(result, problem: courses.Problem, secrets: list[str]) -> None:
    """Check the parts of a result that must be harmless after every attack."""
    assert json_report.parse(json_report.render(Reported(result))) == result
    assert result.problems[0].id == problem.id
    texts = [result.submission.name]
    for test in (test for one in result.problems for test in one.tests):
        texts += [test.about, test.what, test.hint or "", *(fact.text for fact in test.facts)]
    for left_out in result.submission.ignored:
        texts += [left_out.path, left_out.reason]
    sections = {p.id: p.section for p in COURSE.problems}
    everything = "\n".join([*texts, terminal_report.render(Reported(result, sections=sections))])
    assert "BREACH" not in everything
    assert [secret for secret in secrets if secret in everything] == []
    assert [line for line in private_lines_of(problem.id) if line in everything] == []
    assert {c for c in everything if unicodedata.category(c) in UNSAFE} <= {"\n"}
    assert max(map(len, texts)) <= 2000


@contextmanager
def only(runs):
    """Have `grade` run only those of the collected tests that `runs` accepts."""

    def chosen(*arguments):
        tests = copy.copy(hidden_tests.collected(*arguments))
        tests.items = [test for test in tests.items if runs(test)]
        return tests

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grader.grading.grade.collected", chosen)
        yield


def run(attack: Attack, submission: Submission, sandbox: Sandbox, secrets: list[str]):
    target, control = attack.target, attack.control
    course = msgspec.structs.replace(COURSE, problems=[target, control])
    # An attack that the tripwire stops has no answers to compare with known mistakes, and one on
    # the sandbox few. The comparison runs in this process, and is the same at each level.
    explain = "policy" not in attack.statuses and sandbox.isolation == "bubblewrap"
    explain &= attack.in_every_test or attack.header["group"] not in OF_THE_SANDBOX
    with only(attack.runs):
        result = grade(submission, course, sandbox, problems=[target, control], explain=explain)
    attacked, honest = result.problems
    print(*dict.fromkeys(told(target.id, t) for t in attacked.tests), sep="\n\n")
    assert_harmless(result, target, secrets)
    assert honest.score == honest.max_score, [t.said for t in honest.tests if t.what]
    session = Session(sandbox, {}, COURSE.limits, seed=0, forbidden=[])
    assert session.inspect({}) == {}
    assert len(processes("PPid", sandbox.host_pid)) == 1, "more processes than that of this session"
    session.close()
    assert escaped(sandbox.facts["uid"]) == []
    return attacked


# --- the attacks ----------------------------------------------------------------------------------


def test_their_headers_are_complete():
    """Each header has the required keys and only known values; no name is there twice."""
    assert len({attack.name for attack in ALL}) == len(ALL)
    for attack in ALL:
        assert attack.header.keys() <= KEYS, attack.name
        assert attack.header["group"] in GROUPS, attack.name
        assert attack.header["holds"], attack.name
        assert attack.statuses <= {status.value for status in Status}, attack.name
        assert attack.earns in ("0", "less", "full"), attack.name
        assert attack.header.get("reference", "before") == "before", attack.name
        assert ("status" in attack.header) != (attack.earns == "full"), attack.name


@at_each_level(ALL)
def test_it_earns_nothing_and_harms_nobody(sandbox, attack, planted, tmp_path):
    """The target has the status and points in the header; everything else is unaffected."""
    attacked = run(attack, attack.submitted(tmp_path), sandbox, planted)
    full = attacked.max_score
    least, most = {"0": (0, 0), "less": (0, full - 1e-6), "full": (full, full)}[attack.earns]
    as_stated = least <= attacked.score <= most and attacked.status.value in attack.statuses
    if "stronger" in attack.header and sandbox.isolation != "bubblewrap":
        assert not as_stated, "the second level stops it too: remove `stronger` from its header"
        pytest.xfail(attack.header["stronger"])
    if "open" in attack.header:
        assert attacked.score > most, "this attack earns no more: remove `open` from its header"
        pytest.xfail(attack.header["open"])
    assert as_stated, f"{attacked.score:g} of {full:g}, {attacked.status.value}"


ON_THE_SANDBOX = [attack for attack in ALL if attack.header["group"] in OF_THE_SANDBOX]


@NEEDS_ROOT
@pytest.mark.proof
def test_they_fail_for_an_ordinary_user_as_well():
    """Everything in such a user's box belongs to the user, and so to the student's code."""
    test = f"{__file__}::{test_it_earns_nothing_and_harms_nobody.__name__}"
    ids = [f"{test}[bubblewrap-{attack.name}]" for attack in ON_THE_SANDBOX]
    assert passed_by_an_ordinary_user(*ids).startswith(f"{len(ids)} passed")


# Those that write files and start processes, or compare with many modules of torch.
SAMPLE = {"checkpoint", "flop_counter"}


@pytest.mark.parametrize("sandbox", LEVELS[1:], indirect=True)
@pytest.mark.parametrize(
    "chosen", [pytest.param(None, marks=pytest.mark.proof), SAMPLE], ids=["all", "a sample"]
)
def test_an_honest_solution_in_the_same_sandbox_earns_everything(sandbox, chosen, planted):
    """The defences reject no right solution; at the first level, test_cli grades one."""
    problems = [p for p in COURSE.problems if p.device == "cpu" and p.id in (chosen or [p.id])]
    result = grade(Submission("honest", honest_sources(), []), COURSE, sandbox, problems=problems)
    assert_harmless(result, problems[0], planted)
    lost = [(p.id, t.id, t.said) for p in result.problems for t in p.tests if t.score < t.max_score]
    assert lost == []
