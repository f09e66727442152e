"""Reuses each pinned buffer of a ring after its copy; __init__ already draws batches."""


class Prefetcher:
    def __init__(self, batches, device, depth=2):
        if depth < 1:
            raise ValueError(f"depth must be >= 1 (got {depth})")
        self.batches = iter(batches)
        self.device = torch.device(device)
        self.depth = depth
        self.cuda = self.device.type == "cuda"
        if self.cuda:
            self.stream = torch.cuda.Stream()
        self.ring = [None] * (depth + 1)
        self.turn = 0
        self.ready = collections.deque()
        self.over = None
        self.refill()

    def refill(self):
        while self.over is None and len(self.ready) < self.depth:
            try:
                x, y = next(self.batches)
            except StopIteration:
                self.over = StopIteration()
            except Exception as e:
                self.over = e
            else:
                self.ready.append(self.send(x, y) if self.cuda else (x.clone(), y.clone(), None))

    def send(self, x, y):
        slot = self.turn % len(self.ring)
        self.turn += 1
        fits = self.ring[slot] and [t.shape for t in self.ring[slot][:2]] == [x.shape, y.shape]
        if not fits:  # a smaller last batch, for example
            self.ring[slot] = [
                torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in (x, y)
            ] + [torch.cuda.Event()]
        px, py, free = self.ring[slot]
        free.synchronize()
        px.copy_(x)
        py.copy_(y)
        with torch.cuda.stream(self.stream):
            dx = px.cuda(non_blocking=True)
            dy = py.cuda(non_blocking=True)
            free.record(self.stream)
            arrived = self.stream.record_event()
        return dx, dy, arrived

    def __iter__(self):
        return self

    def __next__(self):
        self.refill()
        if len(self.ready) == 0:
            raise self.over
        x, y, arrived = self.ready.popleft()
        if arrived is not None:
            consumer = torch.cuda.current_stream()
            arrived.wait(consumer)
            x.record_stream(consumer)
            y.record_stream(consumer)
        return x, y
