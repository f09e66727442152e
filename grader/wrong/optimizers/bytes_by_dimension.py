"""A tensor is left out where it has no dimension, not where it has one element.

hint: a tensor of shape (1,) has one element too
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
    return sum(x.numel() * x.element_size() for x in tensors if x.dim() > 0)
