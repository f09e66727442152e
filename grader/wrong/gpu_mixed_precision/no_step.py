"""The optimizer does not step.

hint: optimizer.step()
price: nothing is ever learned
"""


def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    if dtype not in (torch.bfloat16, torch.float32):
        raise ValueError(f"dtype must be bfloat16 or float32, got {dtype}")
    if not max_norm > 0:
        raise ValueError(f"max_norm must be above 0, got {max_norm}")
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item()
