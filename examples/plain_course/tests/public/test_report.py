"""report: the handout's example."""

from kit import expect
from kit.student_programs import run_program


def test_the_example(student):
    """Two words, one of them twice."""
    ran = student.run(run_program, module="report", args=["o"], stdin="b a b", keep=["o"])
    expect.value(ran["exit"], 0, of="main", name="the exit code")
    expect.value(ran["files"], {"o": b"a\nb\n"}, of="main", name="the files")
