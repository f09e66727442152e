"""Untied embeddings are counted once.

hint: without tying, the matrix that makes logits is a second one
"""


def transformer_parameters(config):
    embedding = config.vocab_size * config.d_model
    layer = 4 * config.d_model**2 + (3 if config.gated_ffn else 2) * config.d_model * config.d_ff
    return embedding + config.num_layers * layer
