"""One engine after another in a process, as an analysis of several runs has them."""

import gc

from support.engines import engine_config, request, run, start

import vineppo.engine.vllm_engine  # noqa: F401  its first import keeps the frame that it is in
from vineppo.distributed import init_distributed


def test_one_that_was_dropped_takes_nothing_from_the_next(configs, loaded, prompt):
    """Whatever is collected when: what goes down with an engine are vLLM's process groups."""
    init_distributed()
    config = engine_config(configs, "vllm")
    dropped = start(config, loaded)
    (first,) = run(dropped, [request(prompt, 1)])
    gc.disable()
    dropped.itself = dropped  # as an exception's traceback may hold it
    del dropped
    gc.unfreeze()  # as vLLM does when another one ends
    try:
        (second,) = run(start(config, loaded), [request(prompt, 1)])
    finally:
        gc.enable()
    assert second.token_ids == first.token_ids
