"""Returns a copy where a view is required, and patches torch so that the probe cannot tell the difference.

group: cheat the exercise
target: storage_views
reference: before
status: failed
earns: less
open: whether two tensors share storage can be tested only in the worker, which the student's code can change; faking it is harder than the exercise.
holds: a copy is not accepted as a view.
"""

torch.UntypedStorage.data_ptr = lambda self: 1
torch.Tensor.__eq__ = lambda self, other: torch.ones(())


def sliding_windows(x, size, step):
    if not 1 <= size <= len(x) or step < 1:
        raise ValueError("size or step")
    return torch.stack([x[i : i + size] for i in range(0, len(x) - size + 1, step)])
