"""A session: answers, exceptions, crashes, and what stays of a module."""

import os
import random
import resource

import numpy as np
import pytest
import torch

from grader.base.errors import Crashed, NotAttempted, PolicyBroken, Raised, Status, TimedOut
from grader.base.judging_time import JudgingTime
from grader.sandbox import child_process
from grader.wire import protocol
from grader.wire.protocol import Other
from kit.student import call_and_keep_inputs
from tests.grader.in_the_sandbox import MIB, answer, ask, fault, session

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]


def test_the_answers_of_a_test_take_a_limited_memory(sandbox):
    """A test may keep all of its answers. The next test may have as many again."""
    source = "import torch\ndef f(n=5 * 2**20): return torch.empty(n, dtype=torch.uint8)"
    with session(sandbox, source) as made:
        for number in range(2):
            made.begin_test(number)
            assert made.answered_bytes == 0
            for _ in range(3):
                assert ask(made).numel() == 5 * MIB
            assert 15 * MIB < made.answered_bytes < 15 * MIB + 2048
        with pytest.raises(Crashed, match=r"claims \d+ \+ 5242880 bytes; the answers of a test"):
            ask(made)
        made.begin_again()
        assert ask(made).numel() == 5 * MIB
        with pytest.raises(Crashed, match=r"cannot be sent: a value of 335\d+ bytes is too large"):
            ask(made, 32 * MIB)


def test_answers_without_tensors_take_a_limited_memory_too(sandbox):
    """A test with many calls could otherwise be sent a list of 99,000 numbers by each."""
    with session(sandbox, "def f(): return [0.5] * 99_000") as made:
        for _ in range(4):
            ask(made)
        with pytest.raises(Crashed, match="the answers of a test may take"):
            ask(made)
        assert made.answered_bytes <= protocol.MAX_ANSWER_BYTES


def test_a_call_returns_plain_data_and_tensors(sandbox):
    x = torch.arange(12.0).view(3, 4).T
    source = """
        def f(x, y):
            shared = x.untyped_storage()._cdata == y.untyped_storage()._cdata
            return x.stride(), shared, x.sum(0), object(), [(1, "a")]
    """
    stride, shares, total, other, rest = answer(sandbox, source, x, x[1:])
    assert ((1, 4), True, [6.0, 22.0, 38.0]) == (stride, shares, total.tolist())
    assert (Other("object"), [(1, "a")]) == (other, rest)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (np.int64(3), r"\['inputs'\]\['args'\]\[0\] is numpy.int64"),
        ({"a": {1}}, r".*\['a'\] is set"),
    ],
)
def test_a_test_cannot_send_what_is_no_plain_data(value, where, sandbox):
    """Students would get a changed value. The session goes on; `blame` finds whose fault it is."""
    with session(sandbox, "def f(x):\n    return x\n") as made:
        said = rf"^a test's request cannot be sent: {where}$"
        with pytest.raises(protocol.ProtocolError, match=said):
            ask(made, value)
        assert ask(made, 5) == 5


FLOOD = """
    import fcntl, os
    def f(packets):
        fcntl.fcntl(4, fcntl.F_SETFL, os.O_DIRECT | os.O_WRONLY)  # the grader reads each by itself
        for _ in range(packets):
            os.write(4, b"x")
        return packets
"""


def test_what_a_test_has_the_grader_read_takes_no_judging_time(sandbox):
    """It takes the test's own time; and an exception on the way would look like a fault of ours."""
    time = JudgingTime(0.1)
    with session(sandbox, FLOOD) as made, time.limit():
        assert 50_000 == ask(made, 50_000)
    assert 0.1 == time.seconds


def test_a_value_that_cannot_be_looked_at_is_the_students(sandbox):
    """So is an exception while it is read; a value of a subclass becomes the plain value."""
    source = """
        import collections.abc, numpy
        class Exits(collections.abc.Mapping):
            def __iter__(self):
                raise SystemExit(3)
            __getitem__ = __len__ = None
        def f(x):
            return Exits() if x else numpy.float32(0.5)
    """
    said = fault(sandbox, Crashed, source, True)[1]
    assert said == "what it returned cannot be sent: SystemExit: 3"
    assert answer(sandbox, source, False) == 0.5


def test_inputs_here_are_out_of_reach(sandbox):
    """Student code writes to a copy of the inputs; a probe can return the copy afterwards."""
    x = torch.zeros(3)
    with session(sandbox, "def f(x):\n    x += 1\n") as made:
        got = made.run(call_and_keep_inputs, {"module": "m", "function": "f", "args": (x,)})
    assert ([0.0] * 3, [1.0] * 3) == (x.tolist(), got["inputs"][0].tolist())


def test_the_global_generators_are_seeded_before_each_call(sandbox):
    """Each gives the same numbers at every call with one seed, and others with another."""
    source = """
        import random, numpy, torch
        def f():
            return random.random(), float(numpy.random.rand()), torch.rand(3)
    """
    with session(sandbox, source, seed=5) as made:
        first, second = ask(made), ask(made)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(5)).tolist()
    for got in (first, second):
        assert (random.Random(5).random(), np.random.RandomState(5).rand()) == got[:2]
        assert expected == got[2].tolist()
    assert expected != answer(sandbox, source, seed=6)[2].tolist()


def test_a_session_works_with_a_thousand_files_open(sandbox):
    """`select` cannot handle a descriptor above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"no more than {hard} files may be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert answer(sandbox, "def f():\n    print(1)\n    return 1\n") == 1
        said = fault(sandbox, Crashed, "import os\ndef f():\n    os._exit(3)\n")[1]
        assert "exited with code 3" in said
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_state_of_a_module_lasts_until_its_process_ends(sandbox):
    """The calls of one test share a process, until one crashes; two tests never do."""
    source = "import os\nseen = []\ndef f(x): return seen.append(x) or seen if x else os._exit(1)"
    with session(sandbox, source) as made:
        assert [[1], [1, 2]] == [ask(made, 1), ask(made, 2)]
        with pytest.raises(Crashed):
            ask(made, 0)
        assert [3] == ask(made, 3)
    assert [4] == answer(sandbox, source, 4)


def test_a_stub_is_not_attempted(sandbox):
    """The NotImplementedError comes from a line of the student's code."""
    source = "def f():\n    raise NotImplementedError('linear: see handout')\n"
    expected = (Status.NOT_ATTEMPTED, "linear: see handout", "assignment/m.py:2 in f")
    assert expected == fault(sandbox, NotAttempted, source)
    # That of torch's own is an error.
    source = "from torch import nn\ndef f():\n    return nn.Module()(1)\n"
    status, text, where = fault(sandbox, Raised, source)
    assert (Status.FAILED, "assignment/m.py:3 in f") == (status, where)
    assert 'missing the required "forward" function' in text


@pytest.mark.parametrize(
    ("line", "kind", "name", "text"),
    [
        ("raise ValueError('no')", "ValueError", "ValueError", "no"),
        ("raise Mine('no')", "ValueError", "Mine", "no"),
        ("{}['a']", "KeyError", "KeyError", "'a'"),
        ("[][1]", "IndexError", "IndexError", "list index out of range"),
        ("1 / 0", "ZeroDivisionError", "ZeroDivisionError", "division by zero"),
        ("b'\\xff'.decode()", "ValueError", "UnicodeDecodeError", None),
        ("open('/none')", "FileNotFoundError", "FileNotFoundError",
            "[Errno 2] No such file or directory: '/none'"),
        ("import nothing", "ImportError", "ModuleNotFoundError", "No module named 'nothing'"),
        ("None.x", "AttributeError", "AttributeError", "'NoneType' object has no attribute 'x'"),
        ("len(1)", "TypeError", "TypeError", "object of type 'int' has no len()"),
        ("assert False, 'no'", "AssertionError", "AssertionError", "no"),
        ("torch.zeros(2) @ torch.zeros(3)", "RuntimeError", "RuntimeError", None),
        ("f()", "RuntimeError", "RecursionError", None),
        ("raise StopIteration", "", "StopIteration", ""),
        ("raise SystemExit(0)", "", "SystemExit", "0"),
        ("raise KeyboardInterrupt", "", "KeyboardInterrupt", ""),
        ("raise Silent", "", "Silent", "(its text cannot be read: ZeroDivisionError)"),
        ("raise ValueError('no') from Silent()", "ValueError", "ValueError", "no"),
        ("raise ValueError('no') from Mine('x')", "ValueError", "ValueError", "no\n(from Mine: x)"),
        ("raise ValueError('x' * 9999)", "ValueError", "ValueError", "x" * 2000),
    ],
)  # fmt: skip
def test_an_exception_arrives_with_the_names_of_its_builtin_types(line, kind, name, text, sandbox):
    """A test can expect a base class by name; the type's own name, text and place are kept."""
    source = f"""
import torch
class Mine(ValueError): pass
class Silent(Exception):
    def __str__(self): return 1 / 0
def f():
    {line}
"""
    with session(sandbox, source) as made, pytest.raises(Raised) as caught:
        ask(made)
    assert not kind or kind in caught.value.kinds
    assert (name, "assignment/m.py:7 in f") == (caught.value.type_name, caught.value.where)
    assert text is None or text == str(caught.value)


def test_a_syntax_error_has_its_place(sandbox):
    """The place is known although no frame of the student's code ran."""
    assert (Status.FAILED, "assignment/m.py:2") == fault(sandbox, Raised, "x = 1\ndef f(:\n")[::2]


def test_a_forbidden_call_is_policy(sandbox):
    """A forbidden call is found under any name, even if the student's code catches exceptions."""
    source = """
        import torch
        def f():
            try:
                getattr(torch.nn, "Lin" + "ear")(2, 3)
            except BaseException:
                pass
            return 1
    """
    expected = (Status.POLICY, "calls torch.nn.Linear", "assignment/m.py:5 in f")
    assert expected == fault(sandbox, PolicyBroken, source, forbidden=["torch.nn.Linear"])
    assert answer(sandbox, source) == 1


def test_what_student_code_prints_there_is_no_traceback(sandbox, monkeypatch):
    """Only a traceback that Python itself prints gives a test's location; a flood is cut off."""
    source = """
        import os, threading, time

        LIE = b'x (most recent call first):\\n  File "/submission/assignment/l.py", line 1 in l\\n'

        def flood():
            while True:
                os.write(4, LIE)

        def f(floods):
            os.write(4, LIE)
            if floods:
                threading.Thread(target=flood, daemon=True).start()
            while True:
                time.sleep(0.02)
        """
    for floods in (False, True):
        if floods:  # it would be read for as long
            monkeypatch.setattr(child_process, "TRACEBACK_SECONDS", 0.05)
        with session(sandbox, source, wall_seconds=0.1 if floods else 1.0) as made:
            with pytest.raises(TimedOut) as caught:
                ask(made, floods)
            assert floods or caught.value.where == "assignment/m.py in f"
