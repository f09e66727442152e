"""program: what it prints, and how it exits."""

import json

import pytest

from kit import expect
from kit.programs import run_program

MERGES = json.dumps([["a", "b"], ["l", "o"], ["lo", "w"], ["ab", "ab"]])


def apply(student, words):
    """Run the program with some words."""
    return student.run(
        run_program,
        module="bpe",
        args=["apply", "m.json"],
        stdin="".join(f"{word}\n" for word in words),
        files={"m.json": MERGES},
    )


# Stays: the other test is about errors.
@pytest.mark.harm("wrong number")
def test_words_become_tokens(student):
    """Each word is a line of tokens, separated by blanks."""
    ran = apply(student, ["aab", "low", "ababab", "z"])
    expect.value(ran["exit"], 0, of="main", name="the exit code")
    right = ["a ab", "low", "abab ab", "z"]
    expect.lines(ran["stdout"], right, of="main", hint="print(*tokens)")


@pytest.mark.harm("not refused")
@pytest.mark.parametrize("args", [[], ["apply"], ["train", "m.json"], ["apply", "no.json"]])
def test_a_wrong_call_exits_with_2(student, args):
    """Nothing is printed to the standard output."""
    with expect.right_call("apply m.json"):
        ran = apply(student, ["low", "aab"])
        expect.lines(ran["stdout"], ["low", "a ab"], of="main")
    files = {"m.json": MERGES}
    ran = student.run(run_program, module="bpe", args=args, stdin="low\n", files=files)
    expect.value(ran["exit"], 2, of="main", name="the exit code", inputs=" ".join(args))
    expect.value(ran["stdout"], "", of="main", name="its output", inputs=" ".join(args))
