"""A run tells its user of skipped updates."""

from vineppo.progress import summary


def test_skipped_updates_are_in_the_line_where_there_are_any():
    metrics = {"reward/mean": 0.5, "policy/skipped_updates": 0.0, "critic/skipped_updates": 4.0}
    metrics["grading/num_timeouts"] = 2.0
    told = "critic/skipped_updates 4  grading/num_timeouts 2"
    assert summary(metrics) == f"reward 0.500  {told}"
