// 40 problems of AMC 12, of 2023, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/amc_2023.jsonnet`.
(import '../lib/data.libsonnet').amc_2023
