"""The files that tidegate is deployed by, read: those of Compose and Kubernetes, and the secrets that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT
from tidegate.project import Project

INFRA = ROOT / "infra"

COMPOSE, KUBERNETES = INFRA / "compose", INFRA / "kubernetes"


def compose() -> dict[str, Any]:
    return yaml.safe_load((COMPOSE / "docker-compose.yaml").read_text())


def documents() -> Iterator[dict[str, Any]]:
    """Every object of the Kubernetes files."""
    for name in yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]:
        yield from yaml.safe_load_all((KUBERNETES / name).read_text())


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, metadata, spec) of the pods that Deployments and CronJobs make."""
    for document in documents():
        spec = document.get("spec") or {}
        template = spec.get("template") or (spec.get("jobTemplate") or {}).get("spec", {}).get("template")
        if template:
            yield document["metadata"]["name"], template["metadata"], template["spec"]


def secrets() -> dict[str, list[str]]:
    """The names in each secret that the README has people make."""
    text = (KUBERNETES / "README.md").read_text()
    files: dict[str, list[str]] = {}
    for file, names in re.findall(r"#   (\S+\.env) (.*)", text):
        files.setdefault(file, []).extend(re.findall(r"[A-Z][A-Z0-9_]+", names))
    made = re.findall(r"create secret generic (\S+) --from-(?:env-)?file=(\w+=)?(\S+)", text)
    return {name: [key[:-1]] if key else files[file] for name, key, file in made}


def environment(root: Path, file: Path, given: dict[str, Any]) -> Project:
    (root / "resources").mkdir(parents=True)
    (root / "resources" / "there.yaml").write_text(file.read_text())
    (root / "assets").mkdir()
    return Project.load(root, "there", {key: str(value) for key, value in given.items()})
