"""Settings of the C libraries below PyTorch: the waiting of OpenMP's threads, and C's allocator. Imports no torch."""

from __future__ import annotations

import os
import sys

# Rounds that a thread of GNU OpenMP spins at a barrier before it sleeps, about as long as waking it takes; 300,000 is
# the default of GNU OpenMP.
SPIN_COUNT = 1_000
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of mallopt's settings
KEPT, LARGEST = 2**30, 2**25  # bytes; glibc takes no larger second one


def limit_spinning() -> None:
    """Let OpenMP's threads sleep soon where they wait for each other, unless the user has set how they wait.

    On a machine that has other work, a thread that spins takes the core from the one that it waits for. Has an effect
    only before torch is imported, and on the processes that this one starts.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)


def keep_freed_memory() -> bool:
    """Let glibc keep up to 1 GB that was freed, in blocks of up to 32 MB, and use it again.

    Otherwise it hands the gradients of a step back to the system; the pages of the next step's cost more time than is
    needed to fill them. Larger blocks are handed back as before.

    Returns:
        True if this process's allocator is glibc's and has taken the settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    return bool(set_option(TRIM_THRESHOLD, KEPT)) and bool(set_option(MMAP_THRESHOLD, LARGEST))
