"""The checkpoint is written over the old one.

hint: a crash in the middle loses both
"""


def _save(model, optimizer, steps_done, config):
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "steps_done": steps_done,
        "rng": torch.get_rng_state(),
        "gpu_rng": [torch.cuda.get_rng_state(gpu) for gpu in _gpus(config)],
    }
    torch.save(checkpoint, config.checkpoint_path)
