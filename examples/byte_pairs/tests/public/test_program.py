"""program: the handout's example."""

from kit import expect
from kit.programs import run_program


def test_program_on_the_worked_example(student):
    """One word."""
    files = {"m.json": '[["a", "b"]]'}
    args = ["apply", "m.json"]
    ran = student.run(run_program, module="bpe", args=args, stdin="aab\n", files=files)
    expect.value(ran["exit"], 0, of="main", name="the exit code", inputs="apply m.json")
    expect.lines(ran["stdout"], ["a ab"], of="main", inputs="aab")
