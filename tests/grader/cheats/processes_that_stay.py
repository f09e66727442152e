"""Leaves processes that compute for ever, so that the reference has less of the machine.

group: change the surroundings
takes: 3
ends: too slow
holds: all processes of one side have ended before the other side begins.
"""

import os

if os.fork() == 0:
    os.setsid()
    while True:
        pass


def product(a, b):
    return a @ b
