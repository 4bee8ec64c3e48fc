"""The statistics of the analyses: pure functions of arrays, randomness from a given generator.

`A` are the alternatives at a state, `C` clusters (the problems of the states), `K` draws behind a
prediction, `M` strata (tasks), `N` states (of seed_bootstrap, censored: seeds), `R` resamples.
What is true of a state is known from counts: `num_correct` of `num_samples` fresh returns, each 0
or 1, so that its value p has the unbiased estimate c/m (`binomial`).

A statistic that is a function of sums over states comes in two parts: the terms of every state by
name, `terms(…) -> {name: [N]}`, and a function of their sums, `mae(sums)`, which takes sums of
shape () and of shape (R,) alike. `bootstrap.bootstrap_sums` makes estimates of several at once.
"""
