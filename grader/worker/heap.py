"""The heap of a process that forks. Nothing here imports torch or another module of the grader.

A fork copies the page tables of the parent, and the kernel copies each page that the child writes
to. So a child is cheap if the parent's memory lies in few large pages, and if the child's new
objects do not lie between those of the parent.
"""

import ctypes

# CPython allocates objects of up to 512 bytes in pools for each multiple of 16 bytes. A pool begins
# with a header (Objects/obmalloc.c).
POOL_BYTES, POOL_HEADER = 16384, 48
POOLED_SIZES = range(16, 513, 16)
MOST_IN_POOLS = 2**22  # bytes of one size that are allocated at most
# The sizes of larger objects to allocate, largest first. Still larger ones do not lie between
# objects.
SIZES = (65536, 32768, 16384, 8192, 4096, 2048, *range(1024, 0, -16))

NOT_COUNTED = 2**20  # at least the bytes that malloc caches without counting them as free

HUGE_PAGE = 2**21
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def use_up_free_memory() -> None:
    """Allocate all free memory between this process's objects, and keep it.

    New objects of a child then lie next to each other in new pages. Otherwise they lie all over
    the heap, and for almost every one of them the kernel copies a page that the child shares with
    its parent.
    """
    _use_up_pools()
    _use_up_chunks()


def _use_up_pools() -> None:
    """Allocate objects of each size until they lie in a pool that was empty."""
    allocate = ctypes.pythonapi.PyObject_Malloc
    allocate.restype, allocate.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    for size in POOLED_SIZES:
        last = in_a_row = 0
        for _ in range(MOST_IN_POOLS // size):
            place = allocate(size)
            is_next = in_a_row > 0 and place == last + size
            in_a_row = in_a_row + 1 if is_next else int(place % POOL_BYTES == POOL_HEADER)
            if in_a_row == 3:
                break
            last = place
        else:
            return  # this build of Python has no such pools


def _use_up_chunks() -> None:
    """Allocate the free memory of malloc, which has the larger objects and those of C++.

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


def use_huge_pages() -> None:
    """Have the kernel put this process's memory into huge pages.

    malloc asks for them itself; see `HUGE_PAGES_OF_MALLOC` in grader/sandbox/visible.py. This is
    mainly for the memory of CPython's pools. Before Linux 6.1, the kernel does so only for pages
    that are not used yet.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as f:
        lines = [line.split(maxsplit=5) for line in f]
    for place, rights, _, _, _, *name in lines:
        if rights != "rw-p" or name not in ([], ["[heap]\n"]):
            continue
        start, end = (int(address, 16) for address in place.split("-"))
        start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if start < end:
            madvise(start, end - start, MADV_HUGEPAGE)
            madvise(start, end - start, MADV_COLLAPSE)
