// Values that papers of 2026 claim for step credit, beside the critic, the martingale and continuations: the frozen policy and
// the rewards of values.jsonnet. `exact` is the policy's value in closed form. Rates and β are those of claims/tuned.csv.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local values = import 'values.jsonnet';

local bounded = values.values.predictors.bounded;
local bce = { kind: 'cross_entropy', low: 0, high: 1 };
local log_ratio(fit, loss, beta) = bounded { kind: 'log_ratio', fit: fit, loss: loss, beta: beta };
local hl_gauss = bounded { kind: 'hl_gauss' };
// What run.sh tunes: two rates, and two β of a log-ratio.
local kinds = {
  hl_gauss: function(beta) hl_gauss,
  prefixes: function(beta) log_ratio('prefixes', bce, beta),
  end: function(beta) log_ratio('end', bce, beta),
  end_squared: function(beta) log_ratio('end', { kind: 'squared_error', clip: null }, beta),
};
local name(kind, beta, rate) = '%s_beta%s_rate%s' % [kind, beta, std.strReplace(rate, '.', '')];

values + {
  tuned:: {
    [name(kind, beta, rate)]: kinds[kind](beta) { learning_rate: std.parseJson(rate) }
    for kind in std.objectFields(kinds)
    for beta in { hl_gauss: [1], prefixes: [1, 5], end: [5], end_squared: [1] }[kind]
    for rate in (if kind == 'hl_gauss' then ['1e-3', '3e-3'] else ['1e-4', '1e-3'])
  },
  name: 'claims',
  critic+: { learning_rate: 3e-3 },
  values: {
    credit: null,
    predictors: {
      exact: { kind: 'oracle', of: 'policy' },
      posterior: algorithm.vine_martingale.values.predictors.posterior { num_steps: 64 },
      bounded: bounded { learning_rate: 3e-3 },
      prefixes: kinds.prefixes(1) { learning_rate: 1e-4 },
      end: kinds.end(5) { learning_rate: 1e-4 },
      end_squared: kinds.end_squared(1) { learning_rate: 1e-4 },
      hl_gauss: hl_gauss { learning_rate: 3e-3 },
    },
  },
}
