"""Evaluations record what a backward pass would need.

hint: torch.no_grad()
"""


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(_gpus(config)):
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
