"""What the memory of a test's process reads as before it is written."""

from tests.grader.in_the_sandbox import answer, ask, session, warm

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
