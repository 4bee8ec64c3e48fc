"""VinePPO: Monte-Carlo credit assignment for reinforcement learning of language models."""
