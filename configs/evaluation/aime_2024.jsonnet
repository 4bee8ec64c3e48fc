// AIME 2024's 30 problems, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/aime_2024.jsonnet`.
(import '../lib/data.libsonnet').aime_2024
