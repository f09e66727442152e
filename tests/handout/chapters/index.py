"""The start page: the questions and who answers them, the conventions, the chapters with their problems and points."""

import re

from grader.reference import flop_counting
from tests.handout.claims import COURSE, HANDOUT, Claims, n, power, short


def file(module: str) -> str:
    """`05_resource_accounting`: the name of a module's page, by the module's place in problems.toml."""
    return f"{n(_number(module), '02')}_{module}"


def chapter(module: str, word: str = "chapter") -> str:
    """`[chapter 5](05_resource_accounting.md)`: a link to a module's page."""
    return f"[{word} {n(_number(module))}]({file(module)}.md)"


def title(module: str) -> str:
    """What the heading of a module's page says, without its number."""
    page = HANDOUT / f"{_number(module):02}_{module}.md"
    return re.match(r"# \d+ (.+)", page.read_text(encoding="utf-8"))[1]


def _number(module: str) -> int:
    return COURSE.modules.index(module) + 1


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("index.md")
        self.says(f"```{{toctree}} :hidden: {' '.join(map(file, COURSE.modules))} grading calculators ```")
        self.questions()
        self.conventions()
        self.table()

    def questions(self) -> None:
        """Each is answered in its chapters."""
        t, i, o = 5, 3, 7
        forward = flop_counting.linear_flops(t, i, o)
        assert flop_counting.linear_flops(t, i, o, backward=True) - forward == 2 * forward
        self.says(
            f"a block of memory ({chapter('tensor_memory')}), its format",
            f"numbers it can hold ({chapter('precision')}), and named axes",
            f"on the wrong ones ({chapter('einops_reshaping')}).",
            f"Bytes of a tensor ({chapter('tensor_memory')}), of a model's weights ({chapter('linear')}), and",
            f"the optimizer's state ({chapter('optimizers')}) and activations ({chapter('activation_checkpointing')}). "
            f"Measured on a GPU: {chapter('gpu')}.",
            f"as they run ({chapter('flop_counting')}).",
            f"what the forward pass takes ({chapter('autograd')}).",
            f"which a roofline tells ({chapter('resource_accounting')}), or",
            f"read fast enough ({chapter('data')}), or in a copy that the GPU waits for ({chapter('gpu')}).",
            f"the batch and the sequence ({chapter('activation_checkpointing')}); the optimizer's state, with the model ({chapter('optimizers')}); and,",
            f"go on after a crash ({chapter('checkpointing')}).",
            f"In {chapter('training')} the pieces come together",
            f"{chapter('gpu', 'Chapter')} is about",
        )

    def conventions(self) -> None:
        """Units."""
        gb, gib = 10**9, 2**30
        self.says(
            f"- {n(1)} GB is {power(10, 9)} bytes and {n(1)} GiB is {power(2, 30)} bytes, which is {n(100 * (gib / gb - 1), '.1f')} % more."
        )
        assert flop_counting.matmul_flops((1, 1), (1, 1)) == 2, "a multiply and an add"
        self.says(f"- {short(70 * gb)} is {n(70)} · {power(10, 9)}, as Python writes it.")

    def table(self) -> None:
        """Chapters, modules, problems."""
        for module in COURSE.modules:
            problems = [problem for problem in COURSE.problems if problem.module == module]
            listed = " · ".join(f"`{p.id}` §{n(p.section)}, {n(p.points)} points" for p in problems)
            self.says(f"| [{n(_number(module))} {title(module)}]({file(module)}.md) | `{module}.py` | {listed} |")
        points = {device: sum(p.points for p in COURSE.problems if p.device == device) for device in ("cpu", "cuda")}
        self.says(
            f"{n(len(COURSE.problems))} problems, {n(sum(points.values()))} points: {n(points['cpu'])} on a CPU and {n(points['cuda'])} more on a GPU."
        )
