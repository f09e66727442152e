"""How much of its output a test's process leaves to the grader."""

import os

import pytest

from grader.sandbox.channel import Pipe


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("head", [0, 4])
def test_the_middle_is_dropped_however_small_the_pieces_are(size, head):
    """The beginning and the end are what a reader looks for, and they are exact."""
    written, pipe = "".join(map(str, range(60))), Pipe(head_bytes=head, tail_bytes=8)
    for start in range(0, len(written), size):
        os.write(pipe.writing_end, written[start : start + size].encode())
        assert pipe.read()
    assert written[:head] + written[-8:] == pipe.text
    os.close(pipe.writing_end)
    assert not pipe.read()
    pipe.close()
