"""The exceptions that the command line tells without a traceback."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

# What a system's refusal says that its user can mend: room, rights, limits.
USER_ERRNOS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS,
}  # fmt: skip


class UserError(Exception):
    """A mistake in a config, a path or a data file.

    Its message is one line that names the key, file or row; the command line prints it without a
    traceback and exits with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class SharedError(UserError):
    """A mistake that every rank of a job finds, such as one in the config: the main one says it."""


class InterruptionError(Exception):
    """A signal, of this name, has asked the run to end; it stands where it can go on."""


@contextmanager
def naming(what: str) -> Iterator[None]:
    """A mistake within is one of `what`: `naming("problem p/7")` begins its message so."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from error
