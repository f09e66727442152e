"""What a stub promises: classes of inputs and claims, and programs that break one of them."""

import msgspec
import numpy as np
import pytest
import torch

from grader.base.errors import CourseFault
from grader.course import courses
from grader.proof import inputs, promised
from grader.proof.promised import InputClass, Promises
from grader.solutions import mistakes
from grader.solutions.mistakes import Mistake, Sentence

COURSE = courses.load()

SOURCE = '''
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import torch
from jaxtyping import Float
from torch import Tensor, nn

@dataclass(frozen=True)
class Sizes:
    """The sizes."""
    width: int
    deep: bool = False

def total(x: Float[Tensor, "... n"], times: int = 1, *, half: bool = False) -> float:
    """Add up all entries. An empty tensor gives 0.

    total = times · Σ x                 for any x

    Args:
        x: The entries. Any strides will do.
        times, half: Factors.

    Returns:
        The sum as a float.

    Raises:
        ValueError: `times` is 0.

    Example:
        Two ones give 2.

    Handout §1.1 · `python -m assignment check p`
    """
    return float(x.sum()) * times / (2 if half else 1)

def count(tensors: Iterable[Tensor], sizes: Sizes) -> int:
    return sum(x.numel() for x in tensors) * sizes.width

class Double(nn.Module):
    """Twice x."""
    def __init__(self, n: int):
        super().__init__()
        self.w = nn.Parameter(torch.full((n,), 2.0))

    def forward(self, x: Float[Tensor, "n"]) -> Tensor:
        """Multiply."""
        return x * self.w

class Step(torch.optim.Optimizer):
    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, object]], lr: float = 1.0):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad)
'''
PROBLEM = msgspec.structs.replace(
    COURSE.problem("linear"), functions=["Sizes", "total", "count", "Double", "Step"]
)


def module():
    namespace = {"__name__": "made_here"}
    exec(compile(SOURCE, "made_here", "exec"), namespace)
    return namespace


def test_classes_follow_from_the_annotations():
    """Ranks follow from the axes, dtypes from the kind; fields of a dataclass are parameters."""
    names = {one.name for one in promised.classes(PROBLEM, SOURCE)}
    assert {
        "total(x): 1-d", "total(x): 3-d or more", "total(x): empty", "total(x): expanded",
        "total(x): bfloat16", "total(times): left out", "total(times): 2**53 or more",
        "total(half): True", "total(): in no-grad mode", "count(tensors): a generator",
        "count(tensors): that repeats one", "count(sizes.width): 0", "count(sizes.deep): False",
        "Double.forward(): again", "Double.forward(x): empty", "Step.step(gradient): zeros",
        "Step.step(parameter): 0-d", "Step.step(self): with several groups",
    } <= names  # fmt: skip
    never = {"total(x): 0-d", "total(x): int64", "total(half): 0", "Double.forward(x): 2-d"}
    assert not never & names


@pytest.mark.parametrize(
    ("one", "outside", "inside"),
    [
        (InputClass("total", "x", "empty"), [torch.ones(2)], [torch.ones(0)]),
        (InputClass("total", "x", "0-d"), [torch.ones(1)], [torch.tensor(1.0)]),
        (InputClass("total", "x", "expanded"), [torch.ones(2)], [torch.ones(1).expand(2)]),
        (InputClass("total", "x", "not contiguous"), [torch.ones(2, 2)], [torch.ones(2, 3).T]),
        (InputClass("total", "x", "zeros"), [torch.ones(0)], [torch.zeros(2)]),
        (InputClass("total", "x", "infinite"), [torch.ones(2)], [torch.tensor([torch.inf])]),
        (InputClass("total", "x", "bfloat16"), [torch.ones(2)], [torch.ones(2).bfloat16()]),
        (InputClass("total", "times", "left out"), [torch.ones(2), 1], [torch.ones(2)]),
        (InputClass("total", "times", "0"), [torch.ones(2), 1], [torch.ones(2), 0]),
        (InputClass("total", "times", "2**53 or more"), [torch.ones(2), 7], [torch.ones(2), 2**53]),
        (InputClass("count", "tensors", "of one"), [[], 3], [[torch.ones(2)], 3]),
        (InputClass("count", "tensors", "1-d"), [[torch.ones(2, 2)], 3], [[torch.ones(2)], 3]),
        (InputClass("count", "", "that share memory"), [[torch.ones(2)], 3],
         [[torch.ones(2)] * 2, 3]),
    ],
)  # fmt: skip
def test_a_program_is_wrong_for_one_class_only(one, outside, inside):
    """It gives the right answer for other inputs."""
    right, wrong = module(), module()
    inputs.wrong_for(wrong, one.function, one.parameter, one.which)
    for arguments, same in ((outside, True), (inside, False)):
        if one.function == "count":
            arguments = [arguments[0], right["Sizes"](arguments[1])]
        expected, got = right[one.function](*arguments), wrong[one.function](*arguments)
        assert same is (expected == got)


def test_a_generator_is_still_unused_when_the_program_gets_it():
    """Looking at the elements must not use them up."""
    wrong = module()
    inputs.wrong_for(wrong, "count", "tensors", "empty")
    sizes = wrong["Sizes"](1)
    assert 2 == wrong["count"]((torch.ones(1) for _ in range(2)), sizes)
    assert 2 == wrong["count"]([torch.ones(1), torch.ones(0)], sizes)


def test_layers_and_optimizers_are_wrong_for_one_class_only():
    """A layer's second call, or a step with a gradient of zeros."""
    wrong = module()
    inputs.wrong_for(wrong, "Double.forward", "", "again")
    layer = wrong["Double"](3)
    assert [True, False] == [bool((layer(torch.ones(3)) == 2).all()) for _ in range(2)]
    inputs.wrong_for(wrong, "Step.step", "gradient", "zeros")
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    parameters[0].grad, parameters[1].grad = torch.ones(2), torch.zeros(2)
    wrong["Step"](parameters).step()
    values = [p.detach().tolist() for p in parameters]
    assert [[0.0, 0.0], False] == [values[0], values[1] == [1.0, 1.0]]


@pytest.mark.parametrize(
    "answer",
    [1, 2.5, float("inf"), True, None, (), [], {}, (1, 2), {"a": 1.0}, torch.ones(2), torch.ones(0),
     torch.zeros(2).bool(), torch.tensor(3), torch.full((2,), torch.nan), np.arange(3)],
    ids=repr,
)  # fmt: skip
def test_every_answer_can_be_made_wrong(answer):
    """The changed answer differs, also from an empty one or from NaN."""
    changed = inputs._spoilt(answer)
    if isinstance(answer, (torch.Tensor, np.ndarray)):
        assert changed.shape != answer.shape or not bool((changed == answer).any())
    else:
        assert changed != answer


def test_claims_are_the_sentences_of_docstrings():
    """Headings, examples and the last line claim nothing; entries lose their names."""
    assert {
        "Sizes": ["The sizes."],
        "total": [
            "Add up all entries.",
            "An empty tensor gives 0.",
            "total = times · Σ x for any x",
            "The entries.",
            "Any strides will do.",
            "Factors.",
            "The sum as a float.",
            "`times` is 0.",
        ],
        "Double": ["Twice x."],
        "Double.forward": ["Multiply."],
    } == promised.sentences(PROBLEM, SOURCE)


def test_each_claim_needs_two_wrong_solutions_or_a_reason():
    """What is missing, unknown or out of date is named."""
    said = Promises(
        claims={
            "Sizes": {"The sizes.": "a name"},
            "total": {
                "Add up all entries.": ["one", "total(x): empty"],
                "An empty tensor gives 0.": ["one", "one"],
                "total = times · Σ x for any x": ["one", "nosuch"],
                "It once said this.": "gone",
                "The entries.": "a name",
                "Any strides will do.": "a name",
                "Factors.": "a name",
                "The sum as a float.": "a name",
                "`times` is 0.": "a name",
            },
            "Double": {"Twice x.": "a name"},
        },
        not_promised={"total(x): *": "why", "count(x): *": "why"},
    )
    where = "promises/linear.toml: "
    assert [
        where + "total: expected 2 wrong solutions or a reason, got 2: An empty tensor gives 0.",
        where + "total: no wrong solution is called nosuch",
        where + "no test is known for this claim of Double.forward: Multiply.",
        where + "the docstring of total does not say: It once said this.",
        where + "no class of inputs is called count(x): *",
    ] == list(promised.complaints(PROBLEM, SOURCE, said, {"one", "total(x): empty"}))


def test_a_mistake_contradicts_sentences_that_exist():
    """The message names the entry and what there is."""
    reference = SOURCE.replace("Add up all entries.", "1. Add up all entries.")
    names = [Sentence("total", 8), Sentence("total", 9), Sentence("count", 1)]
    one = Mistake(problem="linear", name="one", says="", contradicts=tuple(names), line=7)
    where = "mistakes/linear.edits:7: one: contradicts: expected one of "
    assert [
        where + "the 8 sentences of total; got 9",
        where + "Sizes, total, Double, Double.forward; got count",
    ] == list(promised.unknown_sentences(PROBLEM, reference, [one]))


def test_a_file_that_is_wrong_names_the_entry(tmp_path):
    """A course without such a file promises nothing that could be checked."""
    assert promised.load(tmp_path, "p") is None
    (tmp_path / "p.toml").write_text('[not_promised]\n"f(x): *" = "why"\n')
    listed = promised.load(tmp_path, "p")
    assert "why" == listed.reason("f(x): empty")
    assert "" == listed.reason("f(y): empty")
    (tmp_path / "p.toml").write_text("[claim]\n")
    with pytest.raises(CourseFault, match=r"p\.toml: expected claims and not_promised, got claim"):
        promised.load(tmp_path, "p")
    (tmp_path / "p.toml").write_text("[claims\n")
    with pytest.raises(CourseFault, match=r"p\.toml: "):
        promised.load(tmp_path, "p")


@pytest.mark.parametrize("problem", COURSE.problems, ids=lambda problem: problem.id)
def test_every_claim_of_a_stub_is_listed(problem):
    """`grader validate` checks in addition that tests catch the wrong solutions named there."""
    listed = promised.load(COURSE.promises, problem.id) or Promises()
    reference = COURSE.reference_of(problem)
    known = mistakes.load(COURSE.hidden, problem.id)
    assert [] == list(promised.unknown_sentences(problem, reference, known))
    names = {mistake.name for mistake in known}
    names |= {one.name for one in promised.classes(problem, reference)}
    if listed.claims:
        assert [] == list(promised.complaints(problem, reference, listed, names))
