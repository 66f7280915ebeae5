"""The regression gate: a run held against a baseline, prompt by prompt. It fails on evidence, not on noise."""
