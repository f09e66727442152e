"""`python -m assignment fly` trains a small language model that is made of your own modules.

It predicts what the run will take with your formulas, flies, and compares. Import order:
`text`, `given` ← `parts` ← `model` ← `prediction` ← `flying` ← `page` ← `command`.
"""
