"""Uses a GradScaler that is never enabled, model.zero_grad, and a loss under autocast."""


def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    if dtype != torch.bfloat16 and dtype != torch.float32:
        raise ValueError(f"dtype has to be bfloat16 or float32 and is {dtype}")
    if max_norm != max_norm or max_norm <= 0:
        raise ValueError(f"max_norm has to be above 0 and is {max_norm}")
    scaler = torch.amp.GradScaler(x.device.type, enabled=dtype == torch.float16)
    model.zero_grad()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=dtype is torch.bfloat16):
        prediction = model(x)
        loss = loss_fn(prediction, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().item()
