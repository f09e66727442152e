"""Has events of the GPU report a hundredth of the time, and overwrites their handles.

group: change the clock
from: pygpubench event_array
device: stand-in
takes: 3
ends: too slow
holds: no event is read.
"""

import torch


def product(a, b):
    for event in (torch.cuda.Event, torch.Event):
        event.elapsed_time = lambda self, end: 0.001
        event.record = lambda self, stream=None: None
    return a @ b
