"""What C's allocator does with memory that is freed."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of mallopt's settings
KEPT, LARGEST = 2**30, 2**25  # bytes; glibc takes no larger second one


def keep_freed_memory() -> bool:
    """Let glibc keep up to 1 GB that was freed, in blocks of up to 32 MB, and use it again.

    As it comes, it hands the gradients of a step back to the system; the pages of the next step's cost more time than
    is needed to fill them. Larger blocks are handed back as before.

    Returns:
        Whether this process's allocator is glibc's and has taken the settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    return bool(set_option(TRIM_THRESHOLD, KEPT)) and bool(set_option(MMAP_THRESHOLD, LARGEST))
