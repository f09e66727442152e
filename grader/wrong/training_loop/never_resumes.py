"""A checkpoint is written and never read.

hint: where checkpoint_path exists, go on from there
"""


def _start(model, optimizer, config):
    torch.manual_seed(config.seed)
    if True:
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    for gpu, state in zip(_gpus(config), checkpoint["gpu_rng"], strict=True):
        torch.cuda.set_rng_state(state, gpu)
    return checkpoint["steps_done"]
