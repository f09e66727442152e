"""Right code on the simulated GPU, half of it on a stream of its own that the main stream waits for.

group: right code
device: stand-in
takes: 1
ends: passed
holds: right code may use streams.
"""

import torch


def product(a, b):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        c = a @ b
    torch.cuda.current_stream().wait_stream(side)
    return c
