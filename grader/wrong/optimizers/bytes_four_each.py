"""Every number is taken for 4 bytes.

hint: element_size() of each tensor
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
    return sum(4 * x.numel() for x in tensors if x.numel() > 1)
