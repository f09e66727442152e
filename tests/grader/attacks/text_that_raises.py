"""Raises exceptions whose text, type, traceback or base classes raise, exit or lie when inspected.

group: attack the reader
target: tensor_memory
status: failed, crashed
holds: the worker describes the exception or dies; the grader never inspects it.
"""

import sys


class Meta(type):
    __name__ = property(lambda cls: sys.exit(0))
    __mro__ = property(lambda cls: 1 / 0)
    __module__ = "builtins"


class Evil(Exception, metaclass=Meta):
    errno = [1]

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__
    __traceback__ = property(lambda self: sys.exit(0))


def tensor_bytes(x):
    raise Evil


def storage_bytes(x):
    raise type("Quiet", (Exception,), {"__str__": lambda self: 5, "errno": {}})


def unique_bytes(tensors):
    raise BaseExceptionGroup("\x1b[2J", [SystemExit(0), KeyboardInterrupt()])
