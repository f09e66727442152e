"""Returns values without an end: cyclic, nested a thousand deep, as large as memory, an integer of a million digits.

group: lie about types
target: tensor_memory
tests: tensor_bytes_counts_what_a_view_shows | storage_bytes_is_the_whole_storage | unique_bytes_counts_views_once
status: failed, crashed, memory
holds: the depth, length and size of a value are limited, and exceeding a limit costs only the student.
"""

cycle = []
cycle.append(cycle)
deep = []
for _ in range(100_000):
    deep = [deep]


class Endless(list):
    def __iter__(self):
        return iter(int, 1)


def tensor_bytes(x):
    return (cycle, {"a": cycle}, deep)[x.dim() % 3]


def storage_bytes(x):
    return [0] * 400_000


def unique_bytes(tensors):
    return [1 << 3_000_000, Endless(), iter(int, 1), float("inf")]
