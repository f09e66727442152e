"""What the model draws in an evaluation is gone from the training.

hint: torch.random.fork_rng
"""


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
