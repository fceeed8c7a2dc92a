"""On what and with what a suite was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.benchmarks.peers import DUCKDB_VERSION, FLINK_VERSION
from tidegate.jvm.packages import ICEBERG_PACKAGE, KAFKA_PACKAGES

_PACKAGES = ("tidegate", "pyspark", "pyarrow", "numpy")


def facts(root: Path) -> dict[str, Any]:
    """machine, versions, date (UTC) and commit of the working tree at `root`."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit(root),
        "machine": machine(),
        "versions": versions(),
    }


def machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()


def versions() -> dict[str, str]:
    known = {"python": platform.python_version(), "java": _java()}
    for name in _PACKAGES:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            known[name] = "?"
    known["iceberg"] = ICEBERG_PACKAGE.rpartition(":")[2]
    known["spark-kafka"] = KAFKA_PACKAGES[0].rpartition(":")[2]
    return known | {"flink": FLINK_VERSION, "duckdb": DUCKDB_VERSION}


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", "-version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return "?"
    found = re.search(r'version "([^"]+)"', told)
    return found.group(1) if found else "?"


def commit(root: Path) -> str:
    """Short hash, with + if there are changes that are not committed; ? outside of git."""

    def git(*words: str) -> str:
        asked = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        return asked.stdout.strip() if asked.returncode == 0 else "?"

    # What is measured is the code; that a suite writes its result into docs changes nothing of it.
    changed = git("status", "--porcelain", "--", "platform", "pyproject.toml")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
