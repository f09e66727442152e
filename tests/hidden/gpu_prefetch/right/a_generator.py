"""A generator contains the loop, uses wait_stream, and refills before it yields a batch."""


class Prefetcher:
    def __init__(self, batches, device, depth=2):
        if depth <= 0:
            raise ValueError(f"depth has to be positive, got {depth}")
        self.device = torch.device(device)
        self.generator = self.run(iter(batches), depth)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.generator)

    def run(self, batches, depth):
        on_gpu = self.device.type == "cuda"
        stream = torch.cuda.Stream() if on_gpu else None
        queue, error = [], None
        done = False
        while True:
            while not done and len(queue) < depth:
                try:
                    x, y = next(batches)
                except StopIteration:
                    done = True
                except Exception as e:
                    done, error = True, e
                else:
                    queue.append(self.start(x, y, stream))
            if not queue:
                break
            x, y = queue.pop(0)
            if on_gpu:
                torch.cuda.current_stream().wait_stream(stream)
                x.record_stream(torch.cuda.current_stream())
                y.record_stream(torch.cuda.current_stream())
            pair = [(x, y)]
            del x, y
            yield pair.pop()
        if error is not None:
            raise error

    def start(self, x, y, stream):
        if stream is None:
            return x.clone().to(self.device), y.clone().to(self.device)
        x, y = x.clone().pin_memory(), y.clone().pin_memory()
        with torch.cuda.stream(stream):
            return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
