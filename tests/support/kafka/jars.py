"""Kafka's jars: fetched once by Maven as the pom says, then found in the checkout's cache."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

JAVA_MIN = 17

_POM = Path(__file__).with_name("pom.xml")
_CHECKOUT = Path(__file__).resolve().parents[3]
_FETCH_SECONDS = 600.0


class MissingTool(Exception):  # noqa: N818 - named after what is wrong; tests that need it skip
    """Java or Maven is not on this machine, or Java is too old; the text says which."""


def kafka_version() -> str:
    """The version of Apache Kafka that the pom names."""
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", _POM.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{_POM.name} names no kafka.version")
    return found[1]


def java() -> str:
    """The path of a Java that Kafka runs on; raises MissingTool."""
    path = _tool("java")
    asked = [path, "-version"]
    said = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=30).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_MIN:
        raise MissingTool(f"Apache Kafka needs Java {JAVA_MIN}, java -version says: {said.strip()}")
    return path


def jars() -> Path:
    """The folder of the jars; the first call fetches them. Raises MissingTool, RuntimeError."""
    cached = _CHECKOUT / ".cache" / f"kafka-{kafka_version()}"
    if not cached.exists():
        _fetch(cached)
    return cached


def _fetch(cached: Path) -> None:
    maven = _tool("mvn")
    cached.parent.mkdir(exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{cached.name}-", dir=cached.parent))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    try:
        fetched = subprocess.run(
            [maven, "--quiet", "--batch-mode", f"--file={_POM}", *goal],
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        if fetched.returncode != 0:
            raise RuntimeError(f"mvn could not fetch Apache Kafka:\n{fetched.stdout[-2000:]}")
        fresh.chmod(0o755)
        fresh.rename(cached)
    except OSError:
        if not cached.exists():  # else another run was quicker
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingTool(f"{name} is not on the PATH; Apache Kafka needs java and mvn")
    return path
