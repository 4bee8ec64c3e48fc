"""`vineppo` whose rank 1 raises in the second update."""

import sys

from vineppo import train
from vineppo.cli import main
from vineppo.distributed import rank

update_models = train.update_models


def failing(config, models, scored, reference, iteration, kl_coef):
    if rank() == 1 and iteration == 2:
        raise RuntimeError("rank 1 gives up")
    return update_models(config, models, scored, reference, iteration, kl_coef)


if __name__ == "__main__":
    train.update_models = failing
    sys.exit(main())
