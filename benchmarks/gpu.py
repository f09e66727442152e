"""Measure grading on this machine's GPU: cold and warm time, and MFU.

    python benchmarks/gpu.py [--rounds N] [--only PROBLEM] [--json FILE]

"Cold" is the time of the whole command `grader grade --device cuda`; "warm" is the time in a
sandbox that has graded before. The MFU is measured by the reference's gpu.py, relative to the GPU's
published dense peak, which is looked up by name. A GPU that is not in HARDWARE gets no MFU.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.base.errors import UsageError
from grader.course import courses
from grader.sandbox import gpus
from grader.sandbox.sandbox import Sandbox
from grader.submission import submissions

sys.path.insert(0, str(Path(__file__).parent))
import single

SIZES = (1024, 2048, 4096, 8192)
HARDWARE = {  # torch's name of a GPU → its entry in assignment/resource_accounting.py
    "NVIDIA A100-SXM4-80GB": "A100_80GB",
    "NVIDIA H100 80GB HBM3": "H100_SXM",
    "NVIDIA H200": "H200_SXM",
}


def main() -> None:
    """Measure, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="cold and warm runs (default: 3)")
    single.add_options(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="for the MFU")
    options = parser.parse_args()
    try:
        gpu = gpus.find()
    except UsageError as e:
        sys.exit(f"benchmarks/gpu.py: {e}")
    figures = {
        "environment": {**single.environment(), "gpu": gpu.name, "driver": gpu.driver},
        **warm(gpu, options.rounds, options.only),
        **cold(options.rounds, options.only),
        # At the end, because a process that has used the GPU keeps some of its memory.
        "MFU by the reference (bfloat16, float16, float32 of n × n)": mfu(options.sizes),
    }
    single.show(figures, options.json)


def cold(rounds: int, only: list[str]) -> dict[str, Any]:
    """Wall seconds of the whole command on the reference."""
    command = [sys.executable, "-m", "grader", "grade", str(courses.load().reference)]
    command += ["--device", "cuda", *single.options_of(only)]
    walls = [single.timed(command)[0] for _ in range(rounds)]
    return {
        "cold, wall s (median)": round(statistics.median(walls), 2),
        "cold, wall s (each)": [round(w, 2) for w in walls],
    }


def warm(gpu: gpus.Gpu, rounds: int, only: list[str]) -> dict[str, Any]:
    """Wall seconds in a sandbox that has graded before, and how many tests passed."""
    from grader.grading.grade import grade

    course = courses.load()
    submission = submissions.read(course.reference, course.accepted)
    problems = single.chosen(only)
    with Sandbox.of(course, isolation="bubblewrap", gpu=gpu) as sandbox:
        results, walls = [], []
        for _ in range(rounds + 1):
            started = time.perf_counter()
            results.append(grade(submission, course, sandbox, problems=problems, device="cuda"))
            walls.append(time.perf_counter() - started)
    tests = [t for p in results[-1].problems for t in p.tests if t.device == "cuda"]
    return {
        "reference, tests passed": f"{sum(t.status == 'passed' for t in tests)} of {len(tests)}",
        "warm, wall s (median)": round(statistics.median(walls[1:]), 2),
        "gpu": results[-1].grader.readings,
        "a test, s (median)": round(statistics.median(t.seconds for t in tests), 3),
    }


def mfu(sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """The reference's MFU for square matrix products, by dtype and size."""
    import torch

    from grader.solutions.reference import gpu, resource_accounting

    name = torch.cuda.is_available() and HARDWARE.get(torch.cuda.get_device_name())
    if not name:  # as on the simulated machine
        return {}
    hardware = getattr(resource_accounting, name)
    dtypes = [
        dtype
        for dtype in (torch.bfloat16, torch.float16, torch.float32)
        if dtype in hardware.peak_flops
    ]
    return {
        str(d): {str(n): round(gpu.measured_mfu(n, n, n, d, hardware), 4) for n in sizes}
        for d in dtypes
    }


if __name__ == "__main__":
    main()
