"""An optimizer without state is not expected.

hint: the sum of nothing is 0
"""


def optimizer_state_bytes(optimizer):
    first = next(iter(optimizer.state.values()))
    tensors = [state[name] for state in optimizer.state.values() for name in first if torch.is_tensor(state[name])]
    return sum(x.numel() * x.element_size() for x in tensors if x.numel() > 1)
