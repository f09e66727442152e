"""Computes rates in float32, and rejects a checkpoint of a run with other arguments.

device: cpu
"""

import dataclasses


def _learning_rate(step, config):
    low, high = torch.tensor(config.min_learning_rate), torch.tensor(config.max_learning_rate)
    if step < config.warmup_steps:
        return float(high * step / config.warmup_steps)
    done = torch.tensor((step - config.warmup_steps) / (config.steps - config.warmup_steps))
    return float(low + (high - low) * (1 + torch.cos(math.pi * done)) / 2)


def _save(model, optimizer, steps_done, config):
    checkpoint = {
        "config": str(dataclasses.asdict(config)),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "steps_done": steps_done,
        "rng": torch.get_rng_state(),
    }
    torch.save(checkpoint, f"{config.checkpoint_path}.new")
    os.replace(f"{config.checkpoint_path}.new", config.checkpoint_path)


def _start(model, optimizer, config):
    torch.manual_seed(config.seed)
    if config.checkpoint_path is None or not os.path.exists(config.checkpoint_path):
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    if checkpoint["config"] != str(dataclasses.asdict(config)):
        raise ValueError("the checkpoint is of a run with other arguments")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["steps_done"]
