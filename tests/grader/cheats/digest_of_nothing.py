"""Sends a digest at once, and computes the output when it is fetched.

group: change the digest
ends: refused
says: NOT_THE_SAME
holds: no output can be found for a digest that was sent before.
"""

import sys

timed = sys.modules["kit.timed"]
last = []
timed.digest_of = lambda value: b"0" * 32


def product(a, b):
    last[:] = a, b
    return 0


timed.kept = lambda student: last[0] @ last[1]
