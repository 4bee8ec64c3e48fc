// 83 problems of AMC 12, of 2022 and 2023, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/amc.jsonnet`.
(import '../lib/data.libsonnet').amc
