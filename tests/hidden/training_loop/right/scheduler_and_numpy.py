"""Uses LambdaLR for the rates, numpy's global generator for batches, and pickle to save.

device: cpu
"""

import pickle
import random
import warnings
from pathlib import Path


def _learning_rates(config):
    steps = np.arange(config.steps)
    ramp = steps / max(1, config.warmup_steps)
    turn = (steps - config.warmup_steps) / np.maximum(1, config.steps - config.warmup_steps)
    cosine = (
        config.min_learning_rate
        + (config.max_learning_rate - config.min_learning_rate) * (1 + np.cos(np.pi * turn)) / 2
    )
    return np.where(steps < config.warmup_steps, config.max_learning_rate * ramp, cosine)


def _windows(tokens, config):
    starts = np.random.randint(0, len(tokens) - config.context_length, config.batch_size)
    xy = [
        np.array([tokens[i + k : i + k + config.context_length] for i in starts], dtype=np.int64)
        for k in (0, 1)
    ]
    return [torch.from_numpy(part).to(config.device) for part in xy]


def _state():
    return torch.get_rng_state(), np.random.get_state(), random.getstate()


def _set_state(state):
    torch.set_rng_state(state[0])
    np.random.set_state(state[1])
    random.setstate(state[2])


def _forward(model, x, y, config):
    if config.autocast_dtype is None:
        return F.cross_entropy(model(x).permute(0, 2, 1), y, reduction="sum")
    with torch.autocast(torch.device(config.device).type, config.autocast_dtype):
        return F.cross_entropy(model(x).permute(0, 2, 1), y, reduction="sum")


def _validate(model, tokens, config):
    state, modes = _state(), [(m, m.training) for m in model.modules()]
    torch.manual_seed(1)
    np.random.seed(config.seed % 2**32)
    model.eval()
    total = 0.0
    with torch.no_grad():
        for _ in range(config.eval_batches):
            x, y = _windows(tokens, config)
            rows = config.micro_batch_size or len(x)
            total += sum(
                _forward(model, a, b, config).item() for a, b in zip(x.split(rows), y.split(rows))
            )
    for module, mode in modes:
        module.training = mode
    _set_state(state)
    return total / (config.eval_batches * config.batch_size * config.context_length)


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    torch.manual_seed(config.seed)
    np.random.seed(config.seed % 2**32)
    random.seed(config.seed)
    rates = _learning_rates(config)
    first = 0
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] = 1.0
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: rates[min(s, len(rates) - 1)] if len(rates) else 1.0
    )
    if config.checkpoint_path is not None and os.path.exists(config.checkpoint_path):
        with open(config.checkpoint_path, "rb") as file:
            saved = pickle.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        _set_state(saved["random"])
        first = saved["first"]
    if config.log_path is not None:
        lines = []
        if os.path.exists(config.log_path):
            lines = Path(config.log_path).read_text().split("\n")[:first]
        with open(config.log_path + ".new", "w") as file:
            file.write("".join(line + "\n" for line in lines))
        os.replace(config.log_path + ".new", config.log_path)
    result = TrainResult([], [], [], {}, first)
    model.train(True)
    step = first
    while step < config.steps:
        optimizer.zero_grad(set_to_none=True)
        x, y = _windows(train_tokens, config)
        total, seen, rows = 0.0, 0, config.micro_batch_size or len(x)
        while seen < len(x):
            nats = _forward(model, x[seen : seen + rows], y[seen : seen + rows], config)
            torch.autograd.backward(nats / y.numel())
            total, seen = total + nats.item(), seen + rows
        loss = total / y.numel()
        if loss != loss or abs(loss) == float("inf"):
            raise FloatingPointError("the loss is not finite", step)
        squares = [p.grad.double().pow(2).sum() for p in model.parameters() if p.grad is not None]
        norm = float(torch.stack(squares).sum().sqrt())
        if config.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        lr = float(optimizer.param_groups[0]["lr"])
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler.step()
        result.losses.append(loss)
        result.learning_rates.append(lr)
        result.grad_norms.append(norm)
        step += 1
        extra = {}
        if config.eval_every and step % config.eval_every == 0:
            result.eval_losses[step] = extra["val_loss"] = _validate(model, val_tokens, config)
        if config.log_path is not None:
            with open(config.log_path, "a", buffering=1) as file:
                file.write(
                    json.dumps(
                        {"step": step - 1, "loss": loss, "lr": lr, "grad_norm": norm, **extra}
                    )
                    + "\n"
                )
        if config.checkpoint_path is not None and (
            step == config.steps
            or (config.checkpoint_every and step % config.checkpoint_every == 0)
        ):
            saved = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            }
            with open(config.checkpoint_path + ".part", "wb") as file:
                pickle.dump({**saved, "random": _state(), "first": step}, file)
            os.replace(config.checkpoint_path + ".part", config.checkpoint_path)
    return result
