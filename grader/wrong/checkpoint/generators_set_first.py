"""The generators are set before anything else, and not put back after an error.

hint: all or nothing holds for them as well
"""


def load_checkpoint(src, model, optimizer):
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    torch.set_rng_state(checkpoint["torch"])
    np.random.set_state(checkpoint["numpy"])
    random.setstate(checkpoint["random"])
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        model.load_state_dict(before[0])
        optimizer.load_state_dict(before[1])
        raise
