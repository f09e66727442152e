"""Reads from address 0.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
status: crashed
holds: the crash costs only this problem, and leaves no core file.
"""

import ctypes

ctypes.string_at(0)
