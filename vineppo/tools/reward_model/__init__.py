"""`vineppo reward-model`: scores of whole responses, learned from preference pairs."""
