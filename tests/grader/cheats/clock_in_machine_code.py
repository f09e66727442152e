"""Overwrites the C library's function that tells the time with other machine code.

group: change the clock
from: pygpubench function_detour; pygpubench got_patch
takes: 3
ends: too slow
holds: the machine code of the clock is in another process.
"""

import ctypes
import platform

libc = ctypes.CDLL(None)
address = ctypes.cast(libc.clock_gettime, ctypes.c_void_p).value
page = address & ~0xFFF
if platform.machine() == "x86_64" and libc.mprotect(ctypes.c_void_p(page), 8192, 7) == 0:
    ctypes.memmove(address, b"\x31\xc0\xc3", 3)  # return 0 and leave the time as it is


def product(a, b):
    return a @ b
