"""Storages of one size are taken for the same storage."""


def shares_storage(a, b):
    sizes = {t.untyped_storage().nbytes() for t in (a, b)}
    return len(sizes) == 1
