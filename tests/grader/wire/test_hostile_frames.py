"""The codec, and everything that looks at an answer, is attacked by a machine; see attack_codec."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.grader.processes import ran
from tests.grader.wire import attack_codec

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FEW, MANY, PIECES = 300, 12_500, 8


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, FEW), *(pytest.param(s, MANY, marks=pytest.mark.proof) for s in range(1, 1 + PIECES))],
)
def test_no_frame_leads_outside_its_bytes_or_ends_a_look(seed, count, tmp_path):
    """Each frame is read or refused, and each look at what arrives ends as it says.

    The frames are read in a process of their own, whose freed memory is overwritten and which has
    little memory: what reads outside the body of a frame, or takes too much, ends it.
    """
    reached = tmp_path / "reached"
    reached.write_bytes(bytes(8))
    program = [sys.executable, "-m", attack_codec.__name__, str(seed), "0", str(count), reached]
    env = os.environ | {"MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "1"}
    done = ran(program, cwd=ROOT, env=env)
    number = int.from_bytes(reached.read_bytes())
    assert 0 == done.returncode, (
        f"{attack_codec.frame(seed, number)}\n{done.returncode}: {done.stderr[-4000:]}"
    )
    counts = json.loads(done.stdout)
    print(counts)
    # The frames are such that all of it happens.
    assert count == counts["read"] + counts["refused"]
    assert counts["read"] > count / 4
    assert counts["Tensor"] > count / 10
    assert counts["ndarray"] > count / 40
    assert counts["looks"] > 5 * counts["read"]
    assert counts["messages"] > 100
