"""Elements are counted instead of bytes.

hint: element_size() of each tensor
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
    return sum(x.numel() for x in tensors if x.numel() > 1)
