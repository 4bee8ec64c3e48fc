"""What a comparison can do to its worker; a separate module, since the workers import it."""

import os
import time
from collections import deque
from itertools import repeat


def hang_in_c(answer: str, extracted: str) -> bool:
    """Hangs when asked to, in a C loop that never looks at signals nor lets another thread run."""
    if extracted == "hang":
        deque(repeat(None), maxlen=0)
    return answer == extracted.upper()


def hang_until_marked(answer: str, extracted: str) -> bool:
    """Hangs until there is a file `answer`."""
    return os.path.exists(answer) or hang_in_c(extracted, "hang")


def allocate(answer: str, extracted: str) -> bool:
    if extracted == "much":
        return len(bytearray(8 * 1024**3)) > 0
    return answer == extracted.upper()


def die(answer: str, extracted: str) -> bool:
    if extracted == "die":
        os._exit(3)
    return answer == extracted.upper()


def fail(answer: str, extracted: str) -> bool:
    if extracted == "exit":
        raise SystemExit
    if extracted == "raise":
        raise ValueError("no such mathematics")
    return answer == extracted.upper()


def slow(answer: str, extracted: str) -> bool:
    time.sleep(0.2)
    return answer == extracted.upper()


def pid(answer: str, extracted: str) -> bool:
    """Leaves the worker's process id in the file `answer`."""
    with open(answer, "a") as file:
        file.write(f"{os.getpid()}\n")
    return hang_in_c(answer, extracted)


def math_verify_alone(answer: str, response: str) -> bool:
    """math-verify's own verdict on a whole response, which it searches for the answer itself."""
    from math_verify import parse, verify

    gold, found = (
        parse(text, parsing_timeout=None, raise_on_error=True) for text in (f"${answer}$", response)
    )
    return verify(gold, found, timeout_seconds=None, raise_on_error=True)


def same_expression(answer: str, extracted: str) -> bool:
    """The comparison by math-verify where identical texts would be decided without it."""
    from vineppo.tasks.equivalence import _is_same_expression

    return _is_same_expression(answer, extracted)
