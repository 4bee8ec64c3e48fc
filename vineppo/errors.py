"""The exceptions that the command line tells without a traceback."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

# Refusals of the system that the user can mend: room, rights, limits.
USER_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}


class UserError(Exception):
    """A mistake in a config, a path or a data file: one line that names the key, file or row."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class SharedError(UserError):
    """A mistake that every rank of a job finds, such as one in the config; the main one says it."""


class InterruptionError(Exception):
    """A signal of this name has asked the run to end; it can be resumed."""


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Puts `what` before the message of a mistake within: `naming("problem p/7")`."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from error
