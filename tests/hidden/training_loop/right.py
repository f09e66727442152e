# Right solutions of training_loop in other styles; see grader/solutions/fragments.py.

# [one_function] One function; batches come from torch's global generator, and the log file stays
# open.
# device: cpu
import contextlib
import io


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    if min(config.steps, config.warmup_steps, config.eval_every, config.checkpoint_every) < 0:
        raise ValueError("a number of steps is negative")
    sizes = config.batch_size, config.context_length, config.eval_batches
    if min(*sizes, config.micro_batch_size or 1) <= 0 or (config.max_grad_norm or 0) < 0:
        raise ValueError("a size has to be positive, and max_grad_norm not negative")
    if config.context_length >= len(train_tokens):
        raise ValueError("context_length is larger than the data")
    if config.eval_every > 0 and (val_tokens is None or len(val_tokens) <= config.context_length):
        raise ValueError("val_tokens are needed for eval_every")
    if config.checkpoint_every > 0 and not config.checkpoint_path:
        raise ValueError("checkpoint_path is needed for checkpoint_every")

    device_type = "cuda" if "cuda" in config.device else "cpu"

    def autocast():
        if config.autocast_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(device_type=device_type, dtype=config.autocast_dtype)

    def get_batch(data):
        ix = torch.randint(len(data) - config.context_length, (config.batch_size,))
        rows = [data[i : i + config.context_length + 1].astype(np.int64) for i in ix]
        xy = torch.stack([torch.from_numpy(row) for row in rows]).to(config.device)
        return xy[:, :-1], xy[:, 1:]

    start = 0
    torch.manual_seed(config.seed)
    if config.checkpoint_path and os.path.isfile(config.checkpoint_path):
        state = torch.load(config.checkpoint_path, weights_only=False)
        model.load_state_dict(state["model_state"])
        optimizer.load_state_dict(state["optimizer_state"])
        torch.set_rng_state(state["rng_state"])
        start = state["iter"]
    log = None
    if config.log_path:
        kept = []
        if start > 0 and os.path.exists(config.log_path):
            with open(config.log_path) as old:
                for text in old:
                    with contextlib.suppress(json.JSONDecodeError):
                        if json.loads(text)["step"] < start and text.endswith("\n"):
                            kept.append(text)
        log = open(config.log_path, "w")
        log.writelines(kept)
        log.flush()

    losses, lrs, norms, evals = [], [], [], {}
    model.train()
    for it in range(start, config.steps):
        if it < config.warmup_steps:
            lr = config.max_learning_rate * it / config.warmup_steps
        else:
            ratio = (it - config.warmup_steps) / (config.steps - config.warmup_steps)
            coeff = 0.5 * (1.0 + math.cos(math.pi * ratio))
            lr = coeff * config.max_learning_rate + (1.0 - coeff) * config.min_learning_rate
        for group in optimizer.param_groups:
            group["lr"] = lr
        x, y = get_batch(train_tokens)
        micro = min(config.micro_batch_size or config.batch_size, config.batch_size)
        optimizer.zero_grad(set_to_none=False)
        step_loss = 0.0
        for i in range(0, config.batch_size, micro):
            xb, yb = x[i : i + micro], y[i : i + micro]
            with autocast():
                logits = model(xb)
                loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), yb.reshape(-1))
                loss = loss * xb.size(0) / config.batch_size
            step_loss += loss.item()
            if math.isnan(step_loss) or math.isinf(step_loss):
                if log:
                    log.close()
                raise FloatingPointError(f"step {it}: loss is {step_loss}")
            loss.backward()
        max_norm = float("inf") if config.max_grad_norm is None else config.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses.append(step_loss)
        lrs.append(lr)
        norms.append(norm.item())
        if log:
            line = {"step": it, "loss": step_loss, "lr": lr, "grad_norm": norm.item()}
            log.write(json.dumps({**line, "tokens": x.numel()}) + "\n")
            log.flush()
        if config.eval_every and (it + 1) % config.eval_every == 0:
            state = torch.get_rng_state()
            torch.manual_seed(config.seed + 1)
            model.eval()
            with torch.no_grad():
                total = 0.0
                for _ in range(config.eval_batches):
                    x, y = get_batch(val_tokens)
                    for i in range(0, config.batch_size, micro):
                        xb, yb = x[i : i + micro], y[i : i + micro]
                        with autocast():
                            part = F.cross_entropy(model(xb).transpose(1, 2), yb)
                        total += part.item() * len(xb) / config.batch_size
            evals[it + 1] = total / config.eval_batches
            model.train()
            torch.set_rng_state(state)
        due = it + 1 == config.steps
        due = due or (config.checkpoint_every and (it + 1) % config.checkpoint_every == 0)
        if config.checkpoint_path and due:
            state = {"model_state": model.state_dict(), "optimizer_state": optimizer.state_dict()}
            buffer = io.BytesIO()
            torch.save({**state, "rng_state": torch.get_rng_state(), "iter": it + 1}, buffer)
            with open(config.checkpoint_path + ".new", "wb") as f:
                f.write(buffer.getbuffer())
            os.rename(config.checkpoint_path + ".new", config.checkpoint_path)
    if log:
        log.close()
    return TrainResult(losses, lrs, norms, evals, start)


# [scheduler_and_numpy] Uses LambdaLR for the rates, numpy's global generator for batches, and
# pickle to save.
# device: cpu
import pickle
import random
import warnings
from pathlib import Path


def _learning_rates(config):
    steps = np.arange(config.steps)
    ramp = steps / max(1, config.warmup_steps)
    turn = (steps - config.warmup_steps) / np.maximum(1, config.steps - config.warmup_steps)
    low, high = config.min_learning_rate, config.max_learning_rate
    cosine = low + (high - low) * (1 + np.cos(np.pi * turn)) / 2
    return np.where(steps < config.warmup_steps, high * ramp, cosine)


def _windows(tokens, config):
    length = config.context_length
    starts = np.random.randint(0, len(tokens) - length, config.batch_size)
    xy = [np.array([tokens[i + k : i + k + length] for i in starts], np.int64) for k in (0, 1)]
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
            parts = zip(x.split(rows), y.split(rows))
            total += sum(_forward(model, *part, config).item() for part in parts)
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
            line = {"step": step - 1, "loss": loss, "lr": lr, "grad_norm": norm, **extra}
            with open(config.log_path, "a", buffering=1) as file:
                file.write(json.dumps(line) + "\n")
        due = config.checkpoint_every and step % config.checkpoint_every == 0
        if config.checkpoint_path is not None and (step == config.steps or due):
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            saved["scheduler"] = scheduler.state_dict()
            with open(config.checkpoint_path + ".part", "wb") as file:
                pickle.dump({**saved, "random": _state(), "first": step}, file)
            os.replace(config.checkpoint_path + ".part", config.checkpoint_path)
    return result


# [trainer_class] A trainer class with a new generator per batch, seeded by seed and step, float64
# losses, and a copy of the model for evaluations.
import copy


class Trainer:
    def __init__(self, model, optimizer, tokens, config):
        self.model, self.optimizer, self.tokens, self.config = model, optimizer, tokens, config
        self.step = 0
        torch.manual_seed(config.seed)

    def batch(self, tokens, salt):
        generator = torch.Generator()
        generator.manual_seed(self.config.seed * 1_000_003 + salt)
        length, shape = self.config.context_length, [self.config.batch_size]
        starts = torch.randint(len(tokens) - length, shape, generator=generator)
        view = np.lib.stride_tricks.sliding_window_view(tokens, length + 1)
        both = torch.as_tensor(view[starts.numpy()].astype(np.int64), device=self.config.device)
        return both[:, :length], both[:, 1:]

    def loss(self, x, y):
        kind, dtype = torch.device(self.config.device).type, self.config.autocast_dtype
        with torch.autocast(kind, dtype=dtype, enabled=bool(dtype)):
            logits = self.model(x)
        return F.cross_entropy(logits.double().flatten(end_dim=-2), y.flatten())

    def advance(self):
        config = self.config
        self.optimizer.zero_grad()
        x, y = self.batch(self.tokens, self.step)
        size = config.micro_batch_size or config.batch_size
        weighted = []
        for i in reversed(range(0, config.batch_size, size)):
            loss = self.loss(x[i : i + size], y[i : i + size]) * len(x[i : i + size])
            (loss / config.batch_size).backward()
            weighted.append(loss.item())
        if not all(map(math.isfinite, weighted)):
            raise FloatingPointError(f"no finite loss at step {self.step}")
        loss = math.fsum(weighted) / config.batch_size
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = math.sqrt(math.fsum(float(g.double().square().sum()) for g in gradients))
        limit = math.inf if config.max_grad_norm is None else config.max_grad_norm
        for g in gradients:
            g.mul_(min(1.0, limit / max(norm, 1e-12)))
        lr = _learning_rate(self.step, config)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.step += 1
        return loss, lr, norm

    def random(self):
        return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]

    def set_random(self, states):
        torch.set_rng_state(states[0])
        torch.cuda.set_rng_state_all(states[1:])

    def evaluate(self, tokens):
        before = self.random()
        trained, self.model = self.model, copy.deepcopy(self.model).eval()
        with torch.no_grad():
            size = self.config.micro_batch_size or self.config.batch_size
            losses = []
            for i in range(self.config.eval_batches):
                xy = self.batch(tokens, 500_000 + i)
                parts = zip(*(each.split(size) for each in xy))
                total = sum(self.loss(*part).item() * len(part[0]) for part in parts)
                losses.append(total / len(xy[0]))
        self.model = trained
        self.set_random(before)
        return float(np.mean(losses))

    def save(self):
        path = self.config.checkpoint_path
        state = [self.step, self.model.state_dict(), self.optimizer.state_dict(), self.random()]
        with open(path + f".{os.getpid()}", "wb") as file:
            torch.save(state, file)
        os.replace(path + f".{os.getpid()}", path)

    def load(self):
        path = self.config.checkpoint_path
        if path and os.path.exists(path):
            self.step, model, optimizer, rng = torch.load(path, weights_only=False)
            self.model.load_state_dict(model)
            self.optimizer.load_state_dict(optimizer)
            self.set_random(rng)


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    trainer = Trainer(model, optimizer, train_tokens, config)
    trainer.load()
    result = TrainResult([], [], [], {}, trainer.step)
    if config.log_path:
        _trim_log(config.log_path, trainer.step)
    model.train()
    while trainer.step < config.steps:
        record = trainer.advance()
        for name, value in zip(("losses", "learning_rates", "grad_norms"), record):
            getattr(result, name).append(value)
        if config.log_path:
            with open(config.log_path, "ab", buffering=0) as file:
                line = dict(zip(("step", "loss", "lr", "grad_norm"), (trainer.step - 1, *record)))
                file.write(json.dumps(line, indent=None, separators=(",", ":")).encode() + b"\n")
        due = config.checkpoint_every and trainer.step % config.checkpoint_every == 0
        if config.checkpoint_path and (due or trainer.step == config.steps):
            trainer.save()
        if config.eval_every and trainer.step % config.eval_every == 0:
            result.eval_losses[trainer.step] = trainer.evaluate(val_tokens)
    return result
