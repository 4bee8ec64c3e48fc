"""What the analyses sample: continuations by the policies of a run, through the engine.

Only this package needs torch and vllm; import it within the function that samples.
"""
