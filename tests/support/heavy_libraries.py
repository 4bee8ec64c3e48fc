"""What most commands import, imported once: the server of `support.processes` is forked after it.

Nothing here may run an operation or touch a GPU: neither threads of OpenMP nor CUDA survive a fork.
"""

import gc
import importlib
import os

from vineppo.cli import quiet_libraries

# The engine's and DeepSpeed's own imports at their start, which take as long as the rest.
LATE = (
    "deepspeed.ops.op_builder.all_ops",
    "torch._inductor.compile_fx",
    "torch.utils.cpp_extension",
    "vllm.entrypoints.llm",
    "vllm.model_executor.models.llama",
    "vllm.v1.attention.backends.cpu_attn",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_model_runner",
    "vllm.v1.worker.cpu_worker",
    "wandb",
)

gc.disable()  # what imports make lives to the end
quiet_libraries()
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # else the question initialises CUDA
if not importlib.import_module("torch").cuda.is_available():
    os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
for name in (
    "pandas",
    "transformers",
    "vineppo.evaluate",
    "vineppo.recipes.sft",
    "vineppo.train",
    *LATE,
):
    importlib.import_module(name)
# Children neither copy nor search what they share, also when vLLM undoes its own freezing.
gc.freeze()
gc.enable()
gc.unfreeze = lambda: None
