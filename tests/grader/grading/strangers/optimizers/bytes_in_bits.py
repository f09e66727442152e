"""The answer is in bits."""


def optimizer_state_bytes(optimizer):
    total = 0
    for state in optimizer.state.values():
        for value in state.values():
            if torch.is_tensor(value) and value.nelement() != 1:
                total += value.nelement() * torch.finfo(value.dtype).bits
    return total
