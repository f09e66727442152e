"""A thread class draws, pins and copies batches, and puts them into a queue with their events."""

import queue
import threading


class Prefetcher:
    def __init__(self, batches, device, depth=2):
        if depth < 1:
            raise ValueError(f"depth must be 1 or more, not {depth}")
        self.room = threading.Semaphore(depth)
        self.ready = queue.Queue()
        self.over = None
        self.loader = Loader(iter(batches), torch.device(device), self.room, self.ready)
        self.loader.start()
        self.early = None
        self.ahead = depth > 1

    def __iter__(self):
        return self

    def __next__(self):
        if self.over is not None:
            raise self.over
        item = self.early or self.ready.get()
        self.early = None
        if isinstance(item, Exception):
            self.over = item
            raise item
        if self.ahead:
            self.early = self.ready.get()
        x, y, arrived = item
        if arrived is not None:
            current = torch.cuda.current_stream()
            current.wait_event(arrived)
            x.record_stream(current)
            y.record_stream(current)
        self.room.release()
        return x, y


class Loader(threading.Thread):
    def __init__(self, batches, device, room, ready):
        super().__init__(daemon=True)
        self.batches, self.device, self.room, self.ready = batches, device, room, ready

    def run(self):
        stream = torch.cuda.Stream() if self.device.type == "cuda" else None
        while True:
            self.room.acquire()
            try:
                x, y = next(self.batches)
            except StopIteration:
                self.ready.put(StopIteration())
                return
            except Exception as e:
                self.ready.put(e)
                return
            if stream is None:
                self.ready.put((x.clone(), y.clone(), None))
                continue
            x, y = x.clone().pin_memory(), y.clone().pin_memory()
            with torch.cuda.stream(stream):
                x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
                self.ready.put((x, y, stream.record_event()))
