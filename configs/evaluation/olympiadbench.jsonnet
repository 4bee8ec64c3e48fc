// OlympiadBench's mathematics in English text, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/olympiadbench.jsonnet`.
(import '../lib/data.libsonnet').olympiadbench
