"""Things that a comparison can do to its worker; a separate module, since the workers import it."""

import os
import pickle
import platform
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def with_files(function: Function) -> Function:
    """Made to look like a user's function: it keeps its files, and its worker starts at once."""
    function.load = lambda: None  # type: ignore[attr-defined]
    return function


@with_files
def hang_in_c(answer: str, extracted: str) -> bool:
    """Hangs when asked to, in a C loop that never looks at signals nor lets another thread run."""
    if extracted == "hang":
        deque(repeat(None), maxlen=0)
    return answer == extracted.upper()


def hang_beside_math_verify(answer: str, extracted: str) -> bool:
    return hang_in_c(answer, extracted)


@with_files
def hang_until_marked(answer: str, extracted: str) -> bool:
    """Hangs until there is a file `answer`."""
    return os.path.exists(answer) or hang_in_c(extracted, "hang")


def allocate(answer: str, extracted: str) -> bool:
    if extracted == "much":
        return len(bytearray(8 * 1024**3)) > 0
    return answer == extracted.upper()


@with_files
def die(answer: str, extracted: str) -> bool:
    if extracted == "die":
        os._exit(3)
    return answer == extracted.upper()


@with_files
def fail(answer: str, extracted: str) -> bool:
    if extracted == "exit":
        raise SystemExit
    if extracted == "raise":
        raise ValueError("no such mathematics")
    return answer == extracted.upper()


@with_files
def slow(answer: str, extracted: str) -> bool:
    time.sleep(0.2)
    return answer == extracted.upper()


@with_files
def pid(answer: str, extracted: str) -> bool:
    """Leaves the worker's process id in the file `answer`."""
    with open(answer, "a") as file:
        file.write(f"{os.getpid()}\n")
    return hang_in_c(answer, extracted)


def is_confined(answer: str, extracted: str) -> bool:
    """True if everything fails that reaches beyond the worker; `answer` is a file that exists."""
    attempts: list[Callable[[], Any]] = [
        lambda: os.open(answer, os.O_RDONLY),
        lambda: os.open(extracted, os.O_WRONLY | os.O_CREAT),
        lambda: os.listdir("/"),
        lambda: os.remove(answer),
        lambda: os.mkdir(extracted),
        lambda: os.rename(answer, extracted),
        lambda: os.chmod(answer, 0),
        lambda: socket.socket(),
        lambda: socket.socketpair(),
        lambda: socket.create_server(("127.0.0.1", 0)),
        lambda: subprocess.run(["true"]),
        lambda: os.fork(),
        lambda: os.execv("/bin/true", ["true"]),
        lambda: os.kill(os.getppid(), 0),
    ]
    return all(map(_is_refused, attempts)) and not os.path.exists(answer)


def _is_refused(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except PermissionError:
        return True
    return False


@dataclass
class Unfiltered:
    """The comparison in a worker that finds no filter of system calls, as on another machine."""

    machine: str = "aarch64"

    def __setstate__(self, state: dict[str, str]) -> None:
        platform.machine = lambda: state["machine"]

    def __call__(self, answer: str, extracted: str) -> bool:
        from vineppo.tasks.equivalence import is_equivalent

        return is_equivalent(answer, extracted)


def pickled_reply(path: str) -> bytes:
    """A reply that makes a folder at `path` where it is unpickled."""

    class Folder:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (path,)

    return pickle.dumps(Folder())


@with_files
def send(reply: bytes) -> None:
    """Answers in the worker's stead, and ends it."""
    with Connection(int(sys.argv[1])) as connection:
        connection.send_bytes(reply)
    os._exit(0)


def audited(answer: str, extracted: str) -> bool:
    """The comparison, whose worker dies where Python compiles a text, imports or opens anything."""
    from vineppo.tasks.equivalence import is_equivalent

    _audit()
    return is_equivalent(answer, extracted)


def audited_eval(answer: str, extracted: str) -> bool:
    _audit()
    return eval(f"{answer!r} == {extracted!r}")


@cache
def _audit() -> None:
    def end(event: str, arguments: tuple[Any, ...]) -> None:
        # sympy makes functions of polynomials' exponents from a text of its own, with none in it.
        is_own = event == "compile" and str(arguments[0]).startswith("b'def monomial_")
        if event.startswith(_BEYOND) and not is_own:
            os.write(2, f"{event} {arguments}\n".encode())
            os._exit(4)

    sys.addaudithook(end)


_BEYOND = ("compile", "import", "open", "os.", "socket.", "subprocess.", "ctypes.", "shutil.")


def math_verify_alone(answer: str, response: str) -> bool:
    """math-verify's own verdict on a whole response, which it searches for the answer itself."""
    from math_verify import parse, verify

    gold, found = (
        parse(text, parsing_timeout=None, raise_on_error=True) for text in (f"${answer}$", response)
    )
    return verify(gold, found, timeout_seconds=None, raise_on_error=True)
