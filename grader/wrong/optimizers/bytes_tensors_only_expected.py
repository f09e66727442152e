"""Everything in a state is taken for a tensor.

hint: a state may hold numbers and None
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for state in optimizer.state.values() for x in state.values()]
    return sum(x.numel() * x.element_size() for x in tensors if x.numel() > 1)
