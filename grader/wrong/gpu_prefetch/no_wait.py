"""Nobody waits for the copy: a kernel may read the batch before it is there.

hint: current_stream().wait_stream(…) or wait_event
price: no kernel waits for any copy
"""


class Prefetcher:
    def __init__(self, batches, device, depth=2):
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self._batches = iter(batches)
        self._device = torch.device(device)
        self._depth = depth
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._waiting = collections.deque()
        self._end = None  # the exception that ended `batches`

    def __iter__(self):
        return self

    def __next__(self):
        while self._end is None and len(self._waiting) < self._depth:
            try:
                batch = next(self._batches)
            except StopIteration:
                self._end = StopIteration()
            except Exception as e:
                self._end = e
            else:
                self._waiting.append(_sent(batch, self._device, self._stream))
        if not self._waiting:
            raise self._end
        batch, arrived = self._waiting.popleft()
        if arrived is not None:
            current = torch.cuda.current_stream(self._device)
            for x in batch:
                x.record_stream(current)
        return batch
