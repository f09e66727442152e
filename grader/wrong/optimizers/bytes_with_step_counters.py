"""Counts of steps are counted as well.

hint: a tensor of one element is not counted
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
    return sum(x.numel() * x.element_size() for x in tensors)
