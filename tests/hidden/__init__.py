"""Hidden tests: a folder per problem, with test_hidden.py and, for a GPU, test_cuda.py.

They run in the grader's process and reach the student's code only through the `student` fixture.
The first paragraph of a test's docstring is the rule that the report shows if the test fails.

Here is what several of them draw.
"""

import torch


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def integers(rng, low, high, count=1):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))
