"""What a process writes, kept in a file without a name: a pipe that is not read would stop it, and a reader would cost
time.

Only the end is kept of much. What writes faster than a log does is refused.
"""

from __future__ import annotations

import fcntl
import os
import tempfile

# Of more than so much, only the end is kept.
TRIMMED_BYTES, KEPT_BYTES = 4 << 20, 64 << 10
# A process may write so much, and so much more in each second: a line for each of ten thousand requests.
FLOOD_BYTES, FLOOD_BYTES_PER_S = 64 << 20, 1 << 20


class Output:
    """A file that a process is given to write to."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._dropped = 0
        # After it was cut, the process goes on at its end.
        fcntl.fcntl(self.fileno(), fcntl.F_SETFL, fcntl.fcntl(self.fileno(), fcntl.F_GETFL) | os.O_APPEND)

    def fileno(self) -> int:
        """The descriptor to give to a process."""
        return self._file.fileno()

    def head(self, size: int) -> bytes:
        """The first bytes, before anything was cut."""
        return os.pread(self.fileno(), size, 0)

    def tail(self, size: int) -> bytes:
        """The last bytes."""
        return os.pread(self.fileno(), size, max(0, self._size() - size))

    def written(self) -> int:
        """How much was written so far."""
        return self._dropped + self._size()

    def floods(self, seconds: float) -> bool:
        """Whether a process has written too much within so many seconds. What is not kept of it is cut."""
        size = self._size()
        if size > TRIMMED_BYTES:
            tail = self.tail(KEPT_BYTES)
            os.ftruncate(self.fileno(), 0)
            os.write(self.fileno(), tail)
            self._dropped += size - len(tail)
        return self.written() > FLOOD_BYTES + FLOOD_BYTES_PER_S * seconds

    def close(self) -> None:
        """Frees it."""
        self._file.close()

    def _size(self) -> int:
        return os.fstat(self.fileno()).st_size
