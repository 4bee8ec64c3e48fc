def trains(rollout):
    """The least likely fifth of a response: where it forks (after arXiv:2506.01939)."""
    bound = sorted(rollout.logprobs_T)[len(rollout.logprobs_T) // 5]
    return [logprob <= bound for logprob in rollout.logprobs_T]
