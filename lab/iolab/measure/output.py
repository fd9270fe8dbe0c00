"""The output of a process in a file without a name: an unread pipe would stop the process, and a reader would cost
time.

Of a long output, only the beginning and the end are kept. A process that writes faster than a log is refused.
"""

from __future__ import annotations

import ctypes
import os
import tempfile

from iolab.measure import scratch

# Of a longer output, only the beginning and the end are kept. The beginning has the ready line; the end has the figures
# of an external client, which may list 100,000 clients.
TRIMMED_BYTES, HEAD_BYTES, TAIL_BYTES = 16 << 20, 64 << 10, 4 << 20
# The most that a process may write, plus this much per second: a line for each of ten thousand requests.
FLOOD_BYTES, FLOOD_BYTES_PER_S = 64 << 20, 1 << 20
# Punch a hole in a file without changing its size (linux/falloc.h).
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 0x01, 0x02


class Output:
    """A file for the output of a process; raises NoTemporaryFile if none can be made."""

    def __init__(self) -> None:
        with scratch.writing():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._trimmed = 0

    def fileno(self) -> int:
        """The descriptor for the process."""
        return self._file.fileno()

    def head(self, size: int) -> bytes:
        """The first bytes, at most HEAD_BYTES of them."""
        return os.pread(self.fileno(), size, 0)

    def tail(self, size: int) -> bytes:
        """The last bytes, at most TAIL_BYTES of them."""
        return os.pread(self.fileno(), size, max(0, self.written() - size))

    def written(self) -> int:
        """Bytes written so far."""
        return os.fstat(self.fileno()).st_size

    def floods(self, seconds: float) -> bool:
        """Whether a process has written too much within `seconds`. Also frees the middle of a long output."""
        size = self.written()
        if size - self._trimmed > TRIMMED_BYTES:
            _free(self.fileno(), max(HEAD_BYTES, self._trimmed), size - TAIL_BYTES)
            self._trimmed = size - TAIL_BYTES
        return size > FLOOD_BYTES + FLOOD_BYTES_PER_S * seconds

    def close(self) -> None:
        """Frees it."""
        self._file.close()


def _free(file: int, begin: int, end: int) -> None:
    """Frees a part of a file, which then reads as zeros. A file system without holes keeps it.

    Nothing is moved, so concurrent writes are not lost.
    """
    fallocate = ctypes.CDLL(None).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin)
