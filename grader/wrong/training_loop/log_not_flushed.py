"""Lines are kept and written when there are ten, and at the end.

hint: what a killed process has not written is lost
"""

waiting = []


def _log(path, record):
    waiting.append(json.dumps(record) + "\n")
    if len(waiting) == 10:
        _write_out(path)


def _write_out(path):
    with open(path, "a") as file:
        file.writelines(waiting)
    waiting.clear()


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    try:
        return _train(model, optimizer, train_tokens, config, val_tokens=val_tokens)
    finally:
        if config.log_path is not None:
            _write_out(config.log_path)


def _train(model, optimizer, train_tokens, config, *, val_tokens=None):
    _check(config, train_tokens, val_tokens)
    first_step = _start(model, optimizer, config)
    if config.log_path is not None:
        _trim_log(config.log_path, first_step)
    result = TrainResult([], [], [], {}, first_step)
    model.train()
    for step in range(first_step, config.steps):
        x, y = _batch(train_tokens, config, TRAINING, step)
        loss, lr, norm = _step(model, optimizer, x, y, step, config)
        result.losses.append(loss)
        result.learning_rates.append(lr)
        result.grad_norms.append(norm)
        if config.log_path is not None:
            _log(config.log_path, {"step": step, "loss": loss, "lr": lr, "grad_norm": norm})
        done = step + 1
        if config.eval_every and done % config.eval_every == 0:
            result.eval_losses[done] = _evaluate(model, val_tokens, config)
        is_due = config.checkpoint_every and done % config.checkpoint_every == 0
        if config.checkpoint_path is not None and (is_due or done == config.steps):
            _save(model, optimizer, done, config)
    return result
