"""`python -m assignment fly` trains a small language model that is made of your own modules.

It predicts what the run will take with your formulas, flies, and compares. Import order:
`training_text`, `given_parts` ← `parts` ← `model` ← `prediction` ← `flying` ← `flight_page` ←
`fly_command`.
"""
