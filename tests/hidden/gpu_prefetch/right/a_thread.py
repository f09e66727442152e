"""A pool of one thread draws, pins and copies batches; up to depth futures wait in a queue."""


class Prefetcher:
    def __init__(self, batches, device, depth=2):
        import concurrent.futures

        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self._iterator = iter(batches)
        self._device, self._depth = torch.device(device), depth
        self._stream = torch.cuda.Stream() if self._device.type == "cuda" else None
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._futures = collections.deque()
        self._over = None

    def __iter__(self):
        return self

    def _work(self):
        x, y = next(self._iterator, (None, None))
        if x is None:
            return None
        if self._stream is None:
            return x.clone(), y.clone()
        x, y = (torch.empty_like(t, pin_memory=True).copy_(t) for t in (x, y))
        with torch.cuda.stream(self._stream):
            return x.to(self._device, non_blocking=True), y.to(self._device, non_blocking=True)

    def __next__(self):
        if self._over is not None and not self._futures:
            raise self._over
        while self._over is None and len(self._futures) < self._depth:
            future = self._pool.submit(self._work)
            error = future.exception()
            if error is not None:
                self._over = error
            elif future.result() is None:
                self._over = StopIteration()
            else:
                self._futures.append(future)
        if not self._futures:
            raise self._over
        x, y = self._futures.popleft().result()
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
            x.record_stream(torch.cuda.current_stream())
            y.record_stream(torch.cuda.current_stream())
        return x, y
