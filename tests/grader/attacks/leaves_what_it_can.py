"""Leaves a thread, a process, a timer, a signal handler, a hook, files and an environment variable behind.

group: survive or spread
target: linear
reference: before
earns: full
holds: none of them reaches the next test, which runs in a new process.
"""

import os
import signal
import sys
import threading
import time

import torch


def forget(*arguments):
    """A handler that does nothing."""


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
    """Calls leave() after the test, when the layer is deleted."""

    def __del__(self):
        leave()
