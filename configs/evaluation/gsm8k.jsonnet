// GSM8K's 1,319 test problems, put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/gsm8k.jsonnet`.
(import '../lib/data.libsonnet').gsm8k
