"""`check` and `submit` tell beforehand what the grader's machine lacks."""

import re
import sys

import pytest

from grader.course import courses
from kit.student_command.hand_in_warnings import foreseen
from kit.student_command.submit import parse_error

COURSE = courses.load()
PROBLEMS = [
    {"id": "linear", "module": "linear", "functions": ["Linear"], "points": 4},
    {"id": "training_loop", "module": "training", "functions": ["train"], "points": 12},
]
PACKAGES = {"packages": COURSE.packages}
SOLVED = "import torch\n\nclass Linear(torch.nn.Module):\n    pass\n"


def told(linear, **others):
    """What is told of these modules: (problem, line, whether it is certain, text)."""
    sources = {f"assignment/{name}.py": text.encode() for name, text in others.items()}
    found = foreseen({"assignment/linear.py": linear.encode(), **sources}, PACKAGES, PROBLEMS)
    return [(f.problem["id"], int(f.place.split(":")[1]), f.certain, f.text) for f in found]


OTHER_IMPORTS = {
    "import matplotlib.pyplot as plt": "matplotlib",
    "from tqdm import tqdm": "tqdm",
    "from tqdm.auto import tqdm": "tqdm",
    "import pandas as pd, wandb": "pandas",
    "import scipy.special": "scipy",
    "if torch.cuda: \n    import triton": "triton",
    "class Plot:\n    import seaborn": "seaborn",
    "import pytest": "pytest",
    "import flight": "flight",
    "import msvcrt": "msvcrt",
    "import winreg": "winreg",
    "import winsound": "winsound",
    "from torch.utils.tensorboard import SummaryWriter": "tensorboard",
    "from torch.utils import tensorboard": "tensorboard",
}


@pytest.mark.parametrize("statement", OTHER_IMPORTS)
def test_an_import_of_what_the_grader_lacks_is_told(statement):
    """It names the line, what the grader has, and what to do; behind a condition, it is a note."""
    ((problem, line, certain, text),) = told(f"{SOLVED}{statement}\n")
    assert problem == "linear"
    assert line == 5 + statement.count("\n")
    assert certain is not statement.startswith("if ")
    assert f"imports {OTHER_IMPORTS[statement]}; the grader has only assignment/" in text
    assert "einops, numpy, jaxtyping: delete the import" in text


@pytest.mark.parametrize(
    "source",
    [
        "import numpy.random, einops, jaxtyping, typing_extensions, sympy, networkx, filelock",
        "from __future__ import annotations",
        "from . import data\nfrom .data import x\nfrom assignment import data",
        "import assignment.data",
        "import math, collections.abc, xml.etree.ElementTree",
        "try:\n    import tqdm\nexcept ImportError:\n    tqdm = None",
        "try:\n    from tqdm import tqdm\nexcept Exception:\n    tqdm = iter",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import tqdm",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas",
        'if __name__ == "__main__":\n    import matplotlib\n    open("mine.txt")',
        "import sys\nif sys.version_info >= (3, 12):\n    from typing import override\n"
        "else:\n    from typing_extensions import override",
        "def f(path):\n    with open(path) as a, open('out.txt', 'w') as b:\n        pass",
        "from pathlib import Path\nlist(Path('.').iterdir())\nPath('runs').mkdir()",
        "import torch\nif torch.cuda.is_available():\n    x = torch.ones(1, device='cuda')",
        "import torch\ndef f():\n    return torch.ones(1).cuda()",
        "import torch\nwith torch.set_grad_enabled(False):\n    pass",
        "x = open('/dev/null')",
        "class Reader:\n    def input(self): ...\ninput = 3\ndef f(torch, input): return input()",
        # Python 3.11 reads these.
        "x = f'{1:>{2}} {\"a\"!r} \\n' f\"{'b'}\"",
        'x = f"""{"a"}\n{1 +\n2}"""',
        "match 1:\n    case 1: ...",
        "try: ...\nexcept* ValueError: ...",
        "x = [f'{f\"{1}\"}' for _ in ()]",
    ],
)
def test_what_the_grader_has_is_not_told(source):
    assert told(source, data="x = 1") == []


def test_what_a_module_imports_costs_its_importers_too():
    layer, loop = told("import tqdm\n", training="from assignment.linear import Linear\n")
    assert layer[0] == "linear"
    assert loop[:3] == ("training_loop", 1, True)
    assert "assignment/linear.py:1, which assignment/training.py imports, imports tqdm" in loop[3]


def test_a_module_of_the_assignment_has_to_be_imported_as_such():
    """A script beside it finds it by its bare name, the grader does not."""
    for statement, instead in {
        "import training": "from assignment import training",
        "from training import train": "from assignment.training import train",
    }.items():
        ((*_, certain, text),) = told(f"{statement}\n", training="def train(): ...")
        assert certain
        assert f"write `{instead}`" in text


SYNTAXES = {
    "type Batch = list[int]": 3.12,
    "def first[T](xs: list[T]) -> T: return xs[0]": 3.12,
    "class Box[T]: ...": 3.12,
    'd = {"a": 1}\nx = f"{d["a"]}"': 3.12,
    "x = f\"{'\\n'.join(['a'])}\"": 3.12,
    'x = f"{1 # one\n}"': 3.12,
    "class Box[T = int]: ...": 3.13,
    "try: ...\nexcept ValueError, TypeError: ...": 3.14,
    "x = t'{1}'": 3.14,
    "from typing import override": 0,
    "import typing\nx = typing.override": 0,
    "from warnings import deprecated": 0,
    "import copy\nx = copy.replace(1)": 0,
    "import warnings\n@warnings.deprecated('')\ndef f(): ...": 0,
    "import annotationlib": 0,
}


@pytest.mark.parametrize("source", SYNTAXES)
def test_what_a_newer_python_brought_is_told(source):
    """A Python that is as old as the grader's refuses the syntax by itself."""
    if error := parse_error(source.encode()):
        assert sys.version_info < tuple(map(int, str(SYNTAXES[source] or "0.0").split(".")))
        assert error.line
        return
    (found,) = told(f"{source}\n")
    assert found[:3] == ("linear", 1 + len(re.findall("\n(x =|@)", source)), True)
    assert "3.11" in found[3]
    assert "write it without" in found[3] or "use other quotes" in found[3]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("    breakpoint()", "nobody is at the grader's keyboard"),
        ("    import pdb; pdb.set_trace()", "nobody is at the grader's keyboard"),
        ("    import code; code.interact()", "nobody is at the grader's keyboard"),
        ("    x = input('? ')", "nobody is at the grader's keyboard"),
        ("torch.set_default_dtype(torch.float64)", "delete it, or pass dtype="),
        ("torch.set_grad_enabled(False)", "delete it, or write it into a with"),
        ("torch.set_flush_denormal(True)", "changes all code that runs after it: delete it"),
        ("    torch.set_default_device('cuda')", "delete it, or pass device="),
        ("x = torch.ones(1, device='cuda')", "the grader may have none: ask torch.cuda.is"),
        ("x = torch.ones(1).cuda()", "ask torch.cuda.is_available() first"),
        ("x = torch.ones(1).to('cuda:0')", "needs a GPU when the module is imported"),
        ("    x = open('/home/me/tokens.bin')", "a file that the grader does not have"),
        ("    x = np.load('tokens.npy')", "a file that the grader does not have"),
        ("    x = np.memmap('tokens.bin')", "a file that the grader does not have"),
        ("    x = torch.from_file('tokens.bin')", "a file that the grader does not have"),
        ("    x = torch.load('C:\\\\best.pt')", "a file that the grader does not have"),
        ("    x = open(Path(__file__).parent / 'x.json')", "a file beside the module"),
        ("    x = (Path(__file__).parent / 'x.json').read_text()", "a file beside the module"),
        ("    x = Path('data/x.txt').read_text()", "a file that the grader does not have"),
    ],
)
def test_what_works_on_one_machine_only_is_noted(line, said):
    """It costs nothing certain, so it is a line and no refusal."""
    head = "import numpy as np, torch\nfrom pathlib import Path\ndef f():\n    pass\n"
    ((_, at, certain, text),) = told(f"{head}{line}\n")
    assert (at, certain) == (5, False)
    assert text.startswith("assignment/linear.py:5 ")
    assert said in text


PROGRAM = [{"id": "tally", "module": "linear", "functions": ["main"], "points": 1, "program": True}]


@pytest.mark.parametrize(
    ("line", "of_a_program", "of_a_function"),
    [
        ("x = input() + input()", 0, 1),
        ("x = open('words.txt')", 0, 1),
        ("x = open('/home/me/words.txt')", 1, 1),
        ("breakpoint()", 1, 1),
    ],
)
def test_a_program_has_an_input_and_files(line, of_a_program, of_a_function):
    """A test gives them to a program; of a function, each line is told once."""
    sources = {"assignment/linear.py": f"def main():\n    {line}\n".encode()}
    assert len(foreseen(sources, PACKAGES, PROGRAM)) == of_a_program
    assert len(foreseen(sources, PACKAGES, PROBLEMS)) == of_a_function


@pytest.mark.parametrize(
    "writes",
    [
        "open('t.txt', 'w').write('1')",
        "with open('t.txt', mode='a') as f: f.write('1')",
        "Path('t.txt').write_text('1')",
        "has = Path('t.txt').exists()",
        "NAME = 't.txt'\nwith open(NAME, 'wb') as f: f.write(b'1')",
        "p = Path('t.txt')\nwith p.open('w') as f: f.write('1')",
        "np.save('t.txt', [1])",
    ],
)
def test_a_file_that_the_module_writes_is_there(writes):
    head = "import numpy as np\nfrom pathlib import Path\n"
    assert told(f"{head}{writes}\nx = open('t.txt')\n") == []
    assert len(told(f"{head}{writes}\nprint({'1+' * 900}1)\nx = open('other.txt')\n")) == 1
    assert len(told(f"{head}{writes.replace('t.txt', 'b')}\nx = open('t.txt')\n")) == 1


def test_nothing_is_told_of_the_reference():
    sources = {p.path: COURSE.reference_of(p).encode() for p in COURSE.problems}
    problems = [{"module": p.module, "points": p.points, **p.rules} for p in COURSE.problems]
    assert foreseen(sources, PACKAGES, problems) == []
