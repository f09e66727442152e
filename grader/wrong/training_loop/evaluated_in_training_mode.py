"""Evaluations run with dropout.

hint: model.eval()
"""


def _evaluate(model, tokens, config):
    was_training = model.training
    with torch.no_grad(), torch.random.fork_rng(_gpus(config)):
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
