// AIME 2025's 30 problems, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/aime_2025.jsonnet`.
(import '../lib/data.libsonnet').aime_2025
