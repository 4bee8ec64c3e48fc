"""`vineppo` whose rank 1 raises in the second update."""

import sys

from vineppo import train
from vineppo.cli import main
from vineppo.distributed import rank

update = train.update


def failing(rollouts, policy, predictors, reference, config, iteration, kl_coef):
    if rank() == 1 and iteration == 2:
        raise RuntimeError("rank 1 gives up")
    return update(rollouts, policy, predictors, reference, config, iteration, kl_coef)


if __name__ == "__main__":
    train.update = failing
    sys.exit(main())
