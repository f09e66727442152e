"""The answer is in MiB.

hint: plain bytes, an int
"""


def optimizer_state_bytes(optimizer):
    tensors = [x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)]
    return sum(x.numel() * x.element_size() for x in tensors if x.numel() > 1) / 2**20
