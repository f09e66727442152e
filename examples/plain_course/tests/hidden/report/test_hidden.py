"""report: the file that it writes, and how it exits."""

import pytest

from kit import expect
from kit.student_programs import run_program


# Stays: the other test is about wrong calls.
@pytest.mark.harm("wrong number")
def test_the_file_has_each_word_once(student, rng):
    """The words are sorted, also those of several lines."""
    words = [rng.choice("abcdefgh") for _ in range(9)]
    text = " ".join(words) + "\nz\n"
    ran = student.run(run_program, module="report", args=["out.txt"], stdin=text, keep=["out.txt"])
    expect.value((ran["exit"], ran["stdout"]), (0, ""), of="main", name="its exit code and output")
    expect.value(list(ran["files"]), ["out.txt"], of="main", name="the files that it writes")
    found = ran["files"]["out.txt"].decode()
    expect.lines(found, sorted({*words, "z"}), of="main", hint="sorted(set(…))")


@pytest.mark.harm("not refused")
@pytest.mark.parametrize("args", [[], ["a.txt", "b.txt"]])
def test_a_wrong_call_exits_with_2(student, args):
    """Without a file's name, or with two, nothing is written."""
    with expect.right_call("report out.txt"):
        ran = student.run(run_program, module="report", args=["o"], stdin="c b", keep=["o"])
        expect.value(ran["files"], {"o": b"b\nc\n"}, of="main", name="the files")
    ran = student.run(run_program, module="report", args=args, stdin="a", keep=args)
    expect.value(ran["exit"], 2, of="main", name="the exit code", inputs=" ".join(args))
    expect.value(ran["files"], {}, of="main", name="the files", inputs=" ".join(args))
