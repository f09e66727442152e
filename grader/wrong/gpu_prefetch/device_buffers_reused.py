"""Each batch is copied into the same memory of the device.

hint: batches have memory of their own
price: batches are written over, and every test reads them
"""


def _sent(batch, device, stream):
    if stream is None:
        return tuple(x.to(device, copy=True) for x in batch), None
    pinned = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x) for x in batch]
    with torch.cuda.stream(stream):  # PyTorch keeps pinned memory until the copies from it are done
        return tuple(_buffer(x, device).copy_(x, non_blocking=True) for x in pinned), stream.record_event()


_buffers = {}


def _buffer(x, device):
    key = (x.shape, x.dtype)
    if key not in _buffers:
        _buffers[key] = torch.empty(x.shape, dtype=x.dtype, device=device)
    return _buffers[key]
