// Minerva's 272 problems of undergraduate courses (OCWCourses), put as the run puts its own:
// `vineppo evaluate RUN_DIR --task configs/evaluation/minerva.jsonnet`.
(import '../lib/data.libsonnet').minerva
