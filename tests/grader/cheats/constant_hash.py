"""Replaces the hash function by a constant.

group: change the digest
ends: refused
says: NOT_THE_SAME
holds: the digest is computed again from the output, in another process.
"""

import hashlib

import torch

real = hashlib.blake2b


class Constant:
    def __init__(self, *args, **options):
        pass

    def update(self, data):
        pass

    def digest(self):
        return bytes(32)


hashlib.blake2b = Constant


def product(a, b):
    return a @ b
