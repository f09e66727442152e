"""After a resume the steps up to the next evaluation are counted anew.

hint: s + 1 of the whole run decides
"""


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
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
        if config.eval_every and (done - first_step) % config.eval_every == 0:
            result.eval_losses[done] = _evaluate(model, val_tokens, config)
        is_due = config.checkpoint_every and done % config.checkpoint_every == 0
        if config.checkpoint_path is not None and (is_due or done == config.steps):
            _save(model, optimizer, done, config)
    return result
