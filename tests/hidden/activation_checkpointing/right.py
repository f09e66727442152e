# Right solutions of activation_checkpointing in other styles; see grader/solutions/fragments.py.

# [boxes] Reads saved tensors from boxes after fn, stores inputs on ctx, and splits layers with
# numpy.
# device: cpu
import numpy as np


class Box:
    def __init__(self, x):
        self.x = x


def saved_activation_bytes(fn, exclude=()):
    boxes = []

    def pack(x):
        box = Box(x)
        boxes.append(box)
        return box

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.x):
        fn()
    storages = {box.x.untyped_storage()._cdata: box.x.untyped_storage().nbytes() for box in boxes}
    for x in exclude:
        storages.pop(x.untyped_storage()._cdata, None)
    return sum(storages.values())


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state, fn, *inputs):
        ctx.state, ctx.fn, ctx.inputs = torch.get_rng_state(), fn, inputs
        ctx.dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        with torch.no_grad():
            return fn(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        copies = []
        for x in ctx.inputs:
            copy = x.detach()
            copy.requires_grad = x.requires_grad
            copies.append(copy)
        now = torch.get_rng_state()
        try:
            torch.set_rng_state(ctx.state)
            with (
                torch.set_grad_enabled(True),
                torch.autocast("cpu", dtype=ctx.dtype, enabled=ctx.dtype is not None),
            ):
                result = ctx.fn(*copies)
        finally:
            torch.set_rng_state(now)
        if result.requires_grad:
            result.backward(gradient)
        return (None, None) + tuple(copy.grad for copy in copies)


def checkpoint(fn, *inputs):
    if not torch.is_grad_enabled():
        return fn(*inputs)
    return _Recompute.apply(torch.zeros((), requires_grad=True), fn, *inputs)


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        super().__init__()
        if segments > len(layers):
            raise ValueError("segments must not be more than layers")
        groups = np.array_split(np.arange(len(layers)), segments)
        self.groups = nn.ModuleList(nn.Sequential(*(layers[i] for i in group)) for group in groups)

    def forward(self, x):
        for group in self.groups:
            x = checkpoint(group, x)
        return x


# [hooks] Hooks store a number per saved tensor; the first unpack calls fn again.
# device: cpu
class _Keep(torch.autograd.Function):
    """Saves the inputs, so that an outer checkpoint can drop them."""

    @staticmethod
    def forward(ctx, gate, *inputs):
        ctx.save_for_backward(*inputs)
        return gate.clone()

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("nothing depends on the result")


class _Call:
    def __init__(self, fn, inputs):
        self.fn, self.saved, self.count = fn, None, 0
        self.kept = _Keep.apply(torch.zeros((), requires_grad=True), *inputs).grad_fn
        self.needs = [x.requires_grad for x in inputs]
        self.rng = torch.get_rng_state()
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def pack(self, x):
        self.count += 1
        return self.count - 1

    def unpack(self, number):
        if self.saved is None:
            inputs = self.kept.saved_tensors
            self.saved = []
            enabled, dtype = self.autocast
            before = torch.get_rng_state()
            torch.set_rng_state(self.rng)
            hooks = torch.autograd.graph.saved_tensors_hooks(
                lambda x: self.saved.append(x.detach()), lambda x: x
            )
            with torch.enable_grad(), torch.autocast("cpu", dtype=dtype, enabled=enabled), hooks:
                self.fn(*(x.detach().requires_grad_(g) for x, g in zip(inputs, self.needs)))
            torch.set_rng_state(before)
        return self.saved[number]


def checkpoint(fn, *inputs):
    call = _Call(fn, inputs)
    with torch.autograd.graph.saved_tensors_hooks(call.pack, call.unpack):
        return fn(*inputs)


class CheckpointedSequential(nn.Sequential):
    def __init__(self, layers, segments):
        if segments > len(layers):
            raise ValueError(f"segments={segments} for {len(layers)} layers")
        super().__init__(*layers)
        self.segments = segments

    def forward(self, x):
        size, longer = divmod(len(self), self.segments)
        start = 0
        for i in range(self.segments):
            end = start + size + (i < longer)
            x = checkpoint(lambda x, part=slice(start, end): self.run(x, part), x)
            start = end
        return x

    def run(self, x, part):
        for layer in list(self)[part]:
            x = layer(x)
        return x


# [longest_first] Takes segments from a queue, and uses functools.partial.
import functools


def run(layers, x):
    for layer in layers:
        x = layer(x)
    return x


class CheckpointedSequential(nn.Module):
    def __init__(self, layers, segments):
        if segments > len(layers):
            raise ValueError(f"cannot split {len(layers)} layers into segments={segments}")
        super().__init__()
        for i, layer in enumerate(layers):
            self.add_module(f"layer{i}", layer)
        size, longer = divmod(len(layers), segments)
        self.lengths = [size + (i < longer) for i in range(segments)]

    def forward(self, x):
        queue = [getattr(self, f"layer{i}") for i in range(sum(self.lengths))]
        for length in self.lengths:
            segment, queue = queue[:length], queue[length:]
            x = checkpoint(functools.partial(run, segment), x)
        return x
