"""Returns a list that computes its parts when they are looked at.

group: defer the work
ends: refused
says: cannot be timed
holds: an output consists of plain types alone.
"""


class Lazy(list):
    def __iter__(self):
        yield self.a @ self.b


def product(a, b):
    parts = Lazy([None])
    parts.a, parts.b = a, b
    return parts
