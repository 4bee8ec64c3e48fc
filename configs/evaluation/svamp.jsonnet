// SVAMP's 1,000 problems, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/svamp.jsonnet`.
(import '../lib/data.libsonnet').svamp
