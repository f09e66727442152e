"""No isolation at all, for debugging: the worker is an ordinary process of this user."""

import os
import subprocess
import sys

from grader.sandbox import visible_files
from grader.sandbox.levels.level import Isolation, Level, Order


class NoIsolation(Level):
    """The level "none", which is never chosen automatically."""

    name: Isolation = "none"
    is_isolated = False

    def start(self, order: Order) -> "subprocess.Popen[bytes]":
        """Start the worker as an ordinary process."""
        root = str(visible_files.GRADER.parent)
        command = order.boot(sys.executable, root, [], user=0)
        command.remove("-S")  # the packages are those of this environment
        environment = {
            "TMPDIR": str(order.folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            # Before the folder of this grader, which has tests and probes of its own.
            "PYTHONPATH": str(order.tests.parent),
        }
        if order.gpu:
            environment |= order.gpu.environment(alone=False)
            # The driver may be in a folder that only this variable names.
            environment |= {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        for tool in order.tools:
            environment |= tool.environment
        return order.run(command, environment)
