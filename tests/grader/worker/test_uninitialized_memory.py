"""What the memory of a test's process reads as before it is written."""

import re

from grader.base.errors import Status
from grader.grading.grade import grade
from grader.submission.submissions import Submission
from tests.grader.compared_results import told
from tests.grader.in_the_sandbox import COURSE, answer, ask, session, warm

UNINITIALISED = """
    import torch
    from torch import empty
    def f():
        used = [torch.rand(50) for _ in range(100)]  # so that there is memory with something in it
        del used
        with torch.inference_mode():
            inferred = empty(50)
        x = torch.ones(2, 3)
        made = [
            empty(50), empty(5, 10).T, torch.empty_like(x), torch.empty_like(x.double()),
            x.new_empty(50), inferred, torch.Tensor(2, 3), torch.FloatTensor(50), x.new(50),
            torch.empty_strided((2, 3), (1, 2)), torch.zeros(0).resize_(50),
            torch.empty_permuted((2, 3), (1, 0)), torch.nn.Parameter(empty(50)),
            torch.zeros(0).resize_as_(x), torch.nn.utils.skip_init(torch.nn.Linear, 5, 5).weight,
            torch.nn.Linear(5, 5, device="meta").to_empty(device="cpu").bias,
            empty(50, dtype=torch.bfloat16), empty(50, dtype=torch.float8_e4m3fn).float(),
        ]
        integers = [empty(50, dtype=d) for d in (torch.int64, torch.int32, torch.uint8)]
        ranges = [[int(i.min()), int(i.max())] for i in integers]
        return [bool(m.isnan().all()) for m in made], ranges, empty(3)._version
"""


@warm
def test_memory_that_was_never_written_reads_as_nan(sandbox):
    """Or as the largest integer, so a value that was never set is wrong alike in every run."""
    nan, integers, version = answer(sandbox, UNINITIALISED)
    assert [True] * 18 == nan
    assert [[n, n] for n in (2**63 - 1, 2**31 - 1, 255)] == integers
    assert version == 0


@warm
def test_filling_memory_refuses_no_operation(sandbox):
    """torch has no deterministic put_."""
    source = (
        "import torch\ndef f(): return torch.zeros(3).put_(torch.tensor([0, 2]), torch.ones(2))"
    )
    with session(sandbox, source) as made:
        assert [1.0, 0.0, 1.0] == ask(made).tolist()


@warm
def test_a_weight_that_was_never_set_fails_the_same_tests_in_every_run(sandbox):
    """Two runs with one seed give the same messages; with another seed, the same tests fail."""
    honest = (COURSE.reference / "linear.py").read_text()
    forgetful = honest.replace(
        "nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)", "weight"
    )
    assert forgetful != honest
    submission = Submission("forgetful", {"assignment/linear.py": forgetful.encode()}, [])
    before, problems = {}, [COURSE.problem("linear")]
    for seed in (0, 1, 0):
        options = {"problems": problems, "seed": seed, "explain": False}
        result = grade(submission, COURSE, sandbox, **options)
        texts = {(t.id, t.status, told("", t)) for t in result.problems[0].tests}
        assert texts == before.setdefault(seed, texts), "two runs with one seed"
    assert Status.FAILED in {status for _, status, _ in before[0]}
    one, other = ({(*t[:2], re.sub(r"\d+", "#", t[2])) for t in before[seed]} for seed in (0, 1))
    assert one == other, "except for the sizes that a seed generates"
