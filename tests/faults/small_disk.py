"""A disk of its own that a test may fill: a tmpfs, where whoever runs the tests may mount one."""

import errno
import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK = b"\0" * 65_536
_MOUNT_SECONDS = 10


class SmallDisk:
    """A mounted folder of a few megabytes that PostgreSQL's account may write to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._foreign = path / "foreign"

    def fill(self) -> None:
        """Leave no byte free, by a file that is not PostgreSQL's."""
        with self._foreign.open("ab", buffering=0) as file:
            for chunk in (_CHUNK, _CHUNK[:4096]):
                try:
                    while True:
                        file.write(chunk)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def make_room(self) -> None:
        """Take the foreign file away."""
        self._foreign.unlink()


@contextmanager
def small_disk(path: Path, *, megabytes: int) -> Iterator[SmallDisk | None]:
    """Mount it at `path`, which is made; None where that is not allowed."""
    path.mkdir(parents=True)
    if os.geteuid() != 0 or not _mounted(path, megabytes):
        yield None
        return
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True, timeout=_MOUNT_SECONDS)


def _mounted(path: Path, megabytes: int) -> bool:
    account = pwd.getpwnam("nobody")
    options = f"size={megabytes}m,mode=700,uid={account.pw_uid},gid={account.pw_gid}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    return subprocess.run(mount, check=False, timeout=_MOUNT_SECONDS).returncode == 0
