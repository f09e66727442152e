"""A separate program: start CUDA's driver; print its error and the files of its libraries.

    python cuda_driver.py
    → {"error": "", "libraries": {"libcuda.so.1": "/usr/lib/libcuda.so.580.65.06", …}}

It runs in a short-lived process of its own: a process that has started CUDA cannot fork children
that use CUDA, and the grader's process must stay free of CUDA in any case. The program creates no
CUDA context. Starting the driver also loads a kernel module and creates a device file if they are
missing, which cannot be done inside a box.
"""

import ctypes
import json
import os
from contextlib import suppress

CUDA = "libcuda.so.1"
LOADED_LATER = (
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",
    "libnvidia-nvvm70.so.4",
)
OF_THE_DRIVER = ("libcuda", "libnvidia")


def main() -> None:
    """Print the result of starting CUDA."""
    error = start()
    for name in LOADED_LATER:
        with suppress(OSError):  # no driver has all of them
            ctypes.CDLL(name)
    print(json.dumps({"error": error, "libraries": libraries(OF_THE_DRIVER)}))


def start() -> str:
    """Start CUDA; return the error message, or an empty string if CUDA starts."""
    try:
        cuda = ctypes.CDLL(CUDA)
    except OSError as e:
        return str(e)
    code, words = cuda.cuInit(0), ctypes.c_char_p()
    if code == 0:
        return ""
    cuda.cuGetErrorString(code, ctypes.byref(words))
    return f"{(words.value or b'').decode(errors='replace')} (cuInit gives {code})"


class _Library(ctypes.Structure):
    """The first fields of glibc's struct dl_phdr_info."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


def libraries(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Map the names of loaded libraries that start with these prefixes to their files.

    The names and files come from the loader itself, so it does not matter how it found the files.
    """
    found: dict[str, str] = {}

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)
    def visit(library, size, data):  # type: ignore[no-untyped-def]
        path = os.fsdecode(library.contents.name or b"")
        if os.path.basename(path).startswith(prefixes):
            found[os.path.basename(path)] = os.path.realpath(path)
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(visit, None)
    return found


if __name__ == "__main__":
    main()
