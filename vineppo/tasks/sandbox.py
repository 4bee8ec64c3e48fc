"""A process that has given up files, network and other processes, for good.

The kernel's filter of system calls (https://docs.kernel.org/userspace-api/seccomp_filter.html) lets
through what computing takes: memory, clocks, signals to oneself, and files that are open already.
All else fails with EACCES, as PermissionError in Python.
"""

import ctypes
import errno
import platform
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2  # <linux/prctl.h>
_AUDIT_ARCH_X86_64 = 0xC000003E
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # <linux/bpf_common.h>
_KILL_PROCESS, _REFUSE, _ALLOW = 0x80000000, 0x00050000 | errno.EACCES, 0x7FFF0000
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4  # in struct seccomp_data
# arch/x86/entry/syscalls/syscall_64.tbl
_ALLOWED = {
    **{"read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "writev": 20},
    **{"mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28},
    **{"rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sigaltstack": 131},
    **{"select": 23, "pselect6": 270, "ppoll": 271, "sched_yield": 24, "futex": 202},
    **{"nanosleep": 35, "clock_nanosleep": 230, "getitimer": 36, "setitimer": 38},
    **{"gettimeofday": 96, "clock_gettime": 228, "times": 100, "getrusage": 98},
    **{"getpid": 39, "gettid": 186, "getrandom": 318, "membarrier": 324, "rseq": 334},
    **{"restart_syscall": 219, "exit": 60, "exit_group": 231},
}


def give_up_files_and_network() -> bool:
    """True if the kernel has agreed; False where there is no such filter (not Linux on x86-64)."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    numbers = sorted(_ALLOWED.values())
    instructions = [  # (code, jump if true, jump if false, operand)
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _KILL_PROCESS),  # 32-bit calls have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
        *((_JUMP_IF_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(packed)
    program = struct.pack("HP", len(instructions), ctypes.addressof(buffer))  # struct sock_fprog
    prctl = ctypes.CDLL(None).prctl
    no_privileges = prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    return no_privileges == 0 == prctl(_PR_SET_SECCOMP, mode, program)
