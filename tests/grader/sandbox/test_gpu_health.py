"""The health of a GPU, on the simulated machine: contexts, and the check afterwards."""

import json
import os

import pytest

from tests.grader.sandbox.simulated_machine import needs_a_compiler, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("simulated gpu"),
    needs_a_compiler,
    pytest.mark.skipif(os.geteuid() != 0, reason="a box inside the simulated machine needs root"),
]

PROGRAM = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from grader.course import courses
from grader.sandbox import gpus, sandbox
from grader.grading.grade import grade
from grader.submission.submissions import Submission
from tests.grader.in_the_sandbox import COURSE as course, ask, session
sandbox.GIVE_BACK_SECONDS = 0.2
state = Path(os.environ["SIMULATED_GPU"])
gpu = gpus.find()

source = '''
import os
import torch
def f():
    before = torch.cuda.memory_allocated(), hasattr(torch, "left"), os.getpid()
    torch.left = torch.ones(1000, device="cuda")
    return before, torch.left.device.type, torch.cuda.memory_allocated()
'''
contexts, graded = [], []

# While the last test of the first submission runs, something takes 5 GB of the GPU and keeps it; it
# gives them back before the third one.
sources = courses.sources_in(course.reference)
problems = [course.problem("gpu_memory")]
def take(problem, done, of):
    if done == of:
        state.write_text("used 5500000000\\n")

# A box that preloads only torch starts sooner.
quick = sandbox.Sandbox(
    course.tests, isolation="bubblewrap", scratch_bytes=course.limits.file_bytes,
    packages=course.packages, preload=["torch"], gpu=gpu,
)
with quick as sandbox:
    for _ in range(2):
        with session(sandbox, source) as made:
            contexts.append(ask(made))
    for progress in (take, None, None):
        if len(graded) == 2:
            state.write_text("")
        result = grade(
            Submission("s", sources, []), course, sandbox,
            problems=problems, device="cuda", progress=progress,
        )
        (problem,) = result.problems
        said = sorted({test.what for test in problem.tests if test.device == "cuda"})
        graded.append([problem.score, result.has_grader_error, said, result.grader.readings])
print(json.dumps([contexts, graded]))
"""


@pytest.fixture(scope="module")
def told():
    """What two sessions and three submissions in one sandbox on the simulated machine gave."""
    done = run("-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_gpu_that_breaks_afterwards_costs_nobody_a_point(told):
    """The submission keeps its points, the next one is not graded, and the third one is again.

    The result says what was wrong with the GPU after the last test.
    """
    first, second, third = told[1]
    held = "the GPU still holds 4768 MiB after the test's process has ended"
    assert [4.0, False, [""]] == first[:3]
    assert {"afterwards": held} == first[3]
    more = "the GPU holds 4768 MiB more than before the first submission: end the processes that "
    more += "nvidia-smi lists, or reset the GPU"
    assert [0.0, True, [more]] == second[:3]
    assert {"afterwards": more} == second[3]
    assert [4.0, False, [""]] == third[:3]
    assert {"afterwards": "it works"} == third[3]


def test_each_submission_has_a_process_and_a_context_of_its_own(told):
    """Neither memory of the device nor a mark in torch remains, and the process is another one."""
    one, two = told[0]
    assert [0, False] == one[0][:2] == two[0][:2]
    assert one[0][2] != two[0][2]
    assert ["cuda", 4096] == one[1:] == two[1:]
