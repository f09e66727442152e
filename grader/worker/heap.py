"""The heap of a process that forks. Nothing here imports torch or another module of the grader."""

import ctypes

# The sizes to allocate, largest first. Larger blocks do not lie between objects.
SIZES = (65536, 32768, 16384, 8192, 4096, 2048, *range(1024, 0, -16))

NOT_COUNTED = 2**20  # at least the bytes that malloc caches without counting them as free


def use_up_free_memory() -> None:
    """Allocate all free memory between this process's objects, and keep it.

    New objects of a child then lie next to each other in new pages. Otherwise they lie all over
    the heap, and for almost every one of them the kernel copies a page that the child shares with
    its parent. This takes 20 ms, and then saves a child that runs a few tests 7 ms of 21 ms.

    It has no effect unless glibc is the C library.
    """
    libc = ctypes.CDLL(None)
    try:
        counts, sbrk, malloc = libc.mallinfo, libc.sbrk, libc.malloc
    except AttributeError:
        return
    counts.restype = _Mallinfo
    sbrk.restype = malloc.restype = ctypes.c_size_t
    sbrk.argtypes, malloc.argtypes = [ctypes.c_ssize_t], [ctypes.c_size_t]
    counted = counts()
    end_of_objects = sbrk(0) - counted.keepcost
    left = counted.fordblks - counted.keepcost + NOT_COUNTED
    for size in SIZES:
        while left > 0 and 0 < malloc(size) < end_of_objects:
            left -= size


class _Mallinfo(ctypes.Structure):
    """See mallinfo(3).

    `fordblks` is the number of free bytes, `keepcost` that of those at the end of the heap.
    """

    _fields_ = [
        (name, ctypes.c_int)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]
