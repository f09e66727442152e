"""After an evaluation the generator is seeded again instead of put back."""


def _evaluate(model, tokens, config):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for i in range(config.eval_batches):
            total += _loss(model, *_batch(tokens, config, VALIDATION, i), config).item()
    model.train()
    torch.manual_seed(config.seed)
    return total / config.eval_batches
