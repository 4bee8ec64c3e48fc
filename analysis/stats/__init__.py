"""The statistics of the analyses: pure functions of arrays, randomness from a given generator.

`A` are the alternatives at a state, `C` clusters (the problems of the states), `K` draws behind a
prediction, `N` states (in `seeds`: seeds), `R` resamples. The truth of a state is a count:
`num_correct` of `num_samples` fresh returns, each 0 or 1 (`errors`).
"""
