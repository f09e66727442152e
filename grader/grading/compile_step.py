"""Compile what a problem asks for, before its tests run, in a process of its own without a GPU.

The files that this process has written are data for the trusted process, which never loads one.
The processes of the problem's tests see them where they cannot write (sandbox/running_box.py), and
see no compiler. So what runs is what was compiled for this submission in this grade.
"""

import ast
from contextlib import closing
from dataclasses import replace

import msgspec

from grader.base.errors import CourseFault, Raised, Status, StudentFault
from grader.course.courses import Compiling, Course, Limits, Problem, tree_of
from grader.grading.job import Job
from grader.grading.static_checks import Checked
from grader.grading.verdict import Verdict
from grader.results.records import Fact
from kit.student import load
from kit.text import one_line

# A compiler starts several programs.
PROCESSES = 64
# A busy machine may give the processes of a compiler a part of a processor only.
WALL_PER_CPU = 4.0
# What a compiler says when it meets a limit, and what that is.
LIMITS_IN_WORDS = {
    "CPU time limit exceeded": Status.TIMEOUT,
    "out of memory": Status.MEMORY,
    "memory exhausted": Status.MEMORY,
}
MISSING = (
    "missing: this problem needs a C++ compiler, and this machine has none: apt-get install g++"
)


def compile_what_needs_it(job: Job, checked: Checked) -> Checked:
    """Compile the code of each problem that asks for it and is not settled yet.

    Raises:
        GraderFault: The sandbox failed, or the course names a probe that does not exist.
    """
    settled, built = dict(checked.settled), dict(checked.built)
    for problem in job.here:
        if problem.compiler is None or problem.id in settled:
            continue
        if not job.sandbox.has_compiler:
            settled[problem.id] = Verdict(Status.GRADER_ERROR, MISSING)
            continue
        try:
            built[problem.id] = _built(job, checked, problem, problem.compiler)
        except StudentFault as e:
            settled[problem.id] = _verdict(e, problem)
    return replace(checked, settled=settled, built=built)


def _built(job: Job, checked: Checked, problem: Problem, compiler: Compiling) -> dict[str, bytes]:
    host = job.sandbox.builder()
    if host is None:
        return {}
    inputs = {} if compiler.probe else {"module": problem.module}
    session = job.open_session(
        host,
        job.sources,
        _limits(job.course.limits_of(problem), compiler),
        compiled={problem.path: checked.compiled.get(problem.path, b"")},
        forbidden=problem.forbidden,
        by_hand=problem.by_hand,
        builds=True,
    )
    with closing(session):
        return session.build(_probe(job.course, problem, compiler), inputs, compiler.cache_bytes)


def _limits(usual: Limits, compiler: Compiling) -> Limits:
    return msgspec.structs.replace(
        usual,
        wall_seconds=WALL_PER_CPU * compiler.seconds,
        cpu_seconds=compiler.seconds,
        memory_bytes=compiler.memory_bytes,
        processes=max(PROCESSES, usual.processes),
    )


def _probe(course: Course, problem: Problem, compiler: Compiling) -> tuple[str, str]:
    """The module and the name of the function that calls what has to be compiled."""
    if not compiler.probe:
        return load.__module__, load.__name__
    module = f"tests.probes.{problem.module}"
    path = course.root / f"{module.replace('.', '/')}.py"
    nodes = tree_of(path).body if path.is_file() else []
    if not any(isinstance(n, ast.FunctionDef) and n.name == compiler.probe for n in nodes):
        raise CourseFault(
            f"problem {problem.id}: compiler: expected a function {compiler.probe} in {path}"
        )
    return module, compiler.probe


def _verdict(fault: StudentFault, problem: Problem) -> Verdict:
    """The verdict on all tests of a problem that does not compile."""
    kind = f"{fault.type_name}: " if isinstance(fault, Raised) else ""
    what = one_line(f"does not compile: {kind}{fault.text}", 1000)
    of_limit = [status for words, status in LIMITS_IN_WORDS.items() if words in fault.text]
    facts = (Fact("at", one_line(fault.where, 300)),) if fault.where else ()
    return Verdict((*of_limit, fault.status)[0], what, problem.module, facts)
