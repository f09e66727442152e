"""The copies are made from memory that is not pinned, so Python waits for each.

hint: x.pin_memory()
"""


def _sent(batch, device, stream):
    if stream is None:
        return tuple(x.to(device, copy=True) for x in batch), None
    pinned = batch
    with torch.cuda.stream(stream):  # PyTorch keeps pinned memory until the copies from it are done
        return tuple(x.to(device, non_blocking=True) for x in pinned), stream.record_event()
