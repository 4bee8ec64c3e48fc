// MATH-500: the test problems of PRM800K's split, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/math.jsonnet`.
(import '../lib/data.libsonnet').math
