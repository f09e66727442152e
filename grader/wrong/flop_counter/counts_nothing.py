"""Operators run as usual, and nothing is counted.

hint: add the FLOPs of each product to total and to by_op in __torch_dispatch__
price: nothing that the problem asks for is there
most: 0
"""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
