"""Leaves a thread, a process, a timer, a handler, a hook, files and a variable of the environment.

group: survive or spread
target: linear
reference: before
earns: full
holds: nothing of it reaches the next test, whose process is a new one.
"""

import os
import signal
import sys
import threading
import time

import torch


def forget(*arguments):
    """Does nothing, as a handler."""


def leave():
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if os.fork() == 0:
        time.sleep(60)
    signal.signal(signal.SIGALRM, forget)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    os.environ["LEFT"] = "here"
    open("left", "w").write("here")
    os.mkdir("locked")
    os.chmod("locked", 0)
    torch.nn.modules.module.register_module_forward_hook(forget)


class Linear(Linear):
    left = False

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        if not Linear.left:
            Linear.left = True
            sys.modules["atexit"].register(forget)
            self._later = Later()


class Later:
    """Leaves everything once the test is over and the layer is gone."""

    def __del__(self):
        leave()
