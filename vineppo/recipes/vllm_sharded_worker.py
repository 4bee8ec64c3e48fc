"""vLLM's worker on a CPU, of a replica that several ranks share (`vllm_sharded.py`).

They exchange activations through blocks in /dev/shm. vLLM names the blocks after the ranks' meeting
address, which under a launcher is the same for every job. It removes them at a normal end only. So
two jobs of one machine would meet, and so would a job with what a killed one has left.
"""

import secrets
from pathlib import Path

from vllm.v1.worker.cpu_worker import CPUWorker

from vineppo.distributed import gather, replica

SHARED_MEMORY = Path("/dev/shm")


class SharingCpuWorker(CPUWorker):
    def init_device(self) -> None:
        """With blocks of a name of their own, gone once all ranks have them mapped."""
        ranks_a_replica = self.parallel_config.tensor_parallel_size
        names = gather(f"vineppo-{secrets.token_hex(8)}")
        name = names[replica(ranks_a_replica) * ranks_a_replica]
        # The part after the last colon names the blocks; the ranks have met, so nothing else is
        # made of it.
        self.distributed_init_method = f"env://:{name}"
        super().init_device()
        for block in SHARED_MEMORY.glob(f"{name}-*"):
            block.unlink(missing_ok=True)
