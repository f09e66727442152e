"""Runs the whole step in a closure that the optimizer calls."""


def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    if dtype not in (torch.bfloat16, torch.float32):
        raise ValueError(f"dtype: {dtype}")
    if not max_norm > 0:
        raise ValueError(f"max_norm: {max_norm}")

    def closure():
        optimizer.zero_grad()
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        return loss

    return optimizer.step(closure).item()
