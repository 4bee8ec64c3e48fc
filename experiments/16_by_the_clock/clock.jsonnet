// By the clock, on new seeds, with continuations that begin while their rollout runs.
(import 'runs.jsonnet') {
  seeds:: std.range(9, 16),
  compared:: ['grpo', 'joined', 'joined_privileged_slower', 'rloo', 'vine_privileged'],
}
