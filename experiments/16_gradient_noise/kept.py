"""The rows of some estimators, of the tables of `gradient-variance`: what a folder keeps of them.

python experiments/16_gradient_noise/kept.py GRADIENTS_DIR FOLDER ESTIMATOR,…
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if __name__ == "__main__":
    source, folder, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(",")
    for path in sorted(source.rglob("*.parquet")):
        target = folder / "gradients" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(path)
        pq.write_table(table.filter(pc.is_in(table["estimator"], pa.array(names))), target)
        settings = json.loads(path.with_suffix(".json").read_text())
        about = json.dumps(settings | {"estimators": ",".join(names)}, indent=2)
        target.with_suffix(".json").write_text(about + "\n")
