"""The old checkpoint is removed before the new one is written.

hint: os.replace needs no gap
"""


def _save(model, optimizer, steps_done, config):
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "steps_done": steps_done,
        "rng": torch.get_rng_state(),
        "gpu_rng": [torch.cuda.get_rng_state(gpu) for gpu in _gpus(config)],
    }
    temporary = f"{config.checkpoint_path}.tmp"
    if os.path.exists(config.checkpoint_path):
        os.remove(config.checkpoint_path)
    with open(temporary, "wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, config.checkpoint_path)
