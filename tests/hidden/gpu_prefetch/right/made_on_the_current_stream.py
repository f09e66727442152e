"""Creates tensors on the current stream, so no record_stream is needed."""


class Prefetcher:
    def __init__(self, batches, device, depth=2):
        if depth < 1:
            raise ValueError("depth must be at least 1")
        self.source, self.device, self.depth = iter(batches), torch.device(device), depth
        self.side = torch.cuda.Stream(device=self.device) if self.device.type == "cuda" else None
        self.queue = collections.deque()
        self.failure = None

    def __iter__(self):
        return self

    def _draw(self):
        try:
            pair = next(self.source)
        except StopIteration:
            self.failure = StopIteration()
            return
        except Exception as e:
            self.failure = e
            return
        if self.side is None:
            self.queue.append(([t.detach().clone().to(self.device) for t in pair], None))
            return
        staged = [t.clone().pin_memory() if t.is_pinned() else t.pin_memory() for t in pair]
        targets = [torch.empty_like(t, device=self.device) for t in staged]
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            for target, t in zip(targets, staged):
                target.copy_(t, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.queue.append((targets, event))

    def __next__(self):
        while self.failure is None and len(self.queue) < self.depth:
            self._draw()
        if not self.queue:
            raise self.failure
        targets, event = self.queue.popleft()
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        return tuple(targets)
