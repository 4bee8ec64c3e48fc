"""The schema of the configs: frozen dataclasses, where each default stands once.

Where a key `kind` picks one of several dataclasses, the other keys of that table are its fields. A
comment beside a field gives its unit or its range.
"""

from vineppo.config.schema.engine import *  # noqa: F403 (these files hold nothing but tables)
from vineppo.config.schema.model import *  # noqa: F403
from vineppo.config.schema.run import *  # noqa: F403
from vineppo.config.schema.task import *  # noqa: F403
from vineppo.config.schema.values import *  # noqa: F403
