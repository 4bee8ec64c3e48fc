"""One process at a time writes a run directory."""

import errno
import fcntl
import logging
from pathlib import Path
from typing import BinaryIO

from vineppo.errors import UserError
from vineppo.run_dir.atomic import named_errors

logger = logging.getLogger(__name__)

# What flock says where a file system has no locks (Lustre without -o flock, NFS without lockd).
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}


def lock(path: Path) -> BinaryIO:
    """Holds the directory of `path` until the file is closed or this process ends, however it ends.

    Raises `UserError` while another process holds it. Where the file system has no locks the run
    goes on without one, and says so.
    """
    with named_errors("write", path):
        file = path.open("r+b")  # NFS grants an exclusive lock to a writer alone
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{path.parent} is in use by another process") from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        reason = error.strerror
        logger.warning(
            f"vineppo: {path.parent} cannot be locked ({reason}): start no second process on it"
        )
    return file
