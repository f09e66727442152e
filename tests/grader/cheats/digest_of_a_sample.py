"""Makes a digest of one entry in a hundred, to save time.

group: change the digest
ends: refused
says: NOT_THE_SAME
holds: a digest has to cover every bit.
"""

import sys

timed = sys.modules["kit.timed"]
whole = timed.digest_of
timed.digest_of = lambda value: whole(value.flatten()[::100].contiguous())


def product(a, b):
    return a @ b
