"""The losses of the validation batches are added up and not divided by their number."""


def _evaluate(model, tokens, config):
    state = torch.get_rng_state()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for i in range(config.eval_batches):
            total += _loss(model, *_batch(tokens, config, VALIDATION, i), config).item()
    model.train()
    torch.set_rng_state(state)
    return total
