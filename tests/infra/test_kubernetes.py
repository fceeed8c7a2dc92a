"""The files for Kubernetes: what one names, another has, and no pod may or knows more than it needs (X4)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.infra.deployed import KUBERNETES, documents, environment, pods, secrets


def test_the_environment_of_the_pods_loads_with_what_they_are_given(tmp_path: Path) -> None:
    given_secrets = secrets()
    for name, _, spec in pods():
        (container,) = spec["containers"]
        ((source,),) = (entry["secretRef"].values() for entry in container["envFrom"])
        if source == "tidegate-dagster":
            continue  # the web interface and the daemon open no table
        names = [*given_secrets[source], *(entry["name"] for entry in container["env"])]
        given = dict.fromkeys(names, "value")
        place = tmp_path / name
        assert environment(place, KUBERNETES / "tidegate.yaml", given).env.spark.master.startswith("k8s://")


def test_kubernetes_names_what_is_there() -> None:
    made = {(d["kind"], d["metadata"]["name"]) for d in documents()}
    generated = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["configMapGenerator"]
    maps = {entry["name"]: entry["files"] for entry in generated}
    assert all((KUBERNETES / file.split("=")[-1]).is_file() for files in maps.values() for file in files)
    for name, _, spec in pods():
        assert ("ServiceAccount", spec["serviceAccountName"]) in made
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for volume in volumes.values():
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps, name
            elif "secret" in volume:
                assert volume["secret"]["secretName"] in secrets()
            elif "emptyDir" not in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in made
        (container,) = spec["containers"]
        assert container["image"] == "tidegate"
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "configMap" in volume:
                keys = [file.split("=")[0] for file in maps[volume["configMap"]["name"]]]
                assert mount["subPath"] in keys
        assert container["envFrom"][0]["secretRef"]["name"] in secrets()
    for document in documents():
        if document["kind"] == "Service":
            assert ("Deployment", document["spec"]["selector"]["app"]) in made
        if document["kind"] == "Deployment":
            assert (
                document["spec"]["selector"]["matchLabels"]
                == document["spec"]["template"]["metadata"]["labels"]
            )


def kubernetes_objects() -> Iterator[dict[str, Any]]:
    """Everything, with what is made from a template at run time."""
    yield from documents()
    yield yaml.safe_load((KUBERNETES / "executor.yaml").read_text())


@pytest.mark.parametrize(
    "found", kubernetes_objects(), ids=lambda d: f"{d['kind']}-{d['metadata'].get('name')}"
)
def test_kubernetes_takes_it_by_its_published_schemas(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)


def test_a_misspelt_word_is_no_kubernetes() -> None:
    pod = yaml.safe_load((KUBERNETES / "executor.yaml").read_text())
    pod["spec"]["securityContext"]["runAsNonRot"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def test_X4_every_pod_keeps_the_restricted_standard() -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards, and a root file system that is read-only."""
    (namespace,) = [d for d in documents() if d["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    executor = yaml.safe_load((KUBERNETES / "executor.yaml").read_text())
    specs = [spec for _, _, spec in pods()] + [executor["spec"]]
    assert len(specs) == 6
    for spec in specs:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        kinds = {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"}}
        assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
        for container in spec["containers"]:
            inside = container["securityContext"]
            assert inside == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert not any("hostPort" in port for port in container.get("ports", ()))
            writable = {m["mountPath"] for m in container["volumeMounts"] if m["name"] == "scratch"}
            assert {"/scratch", "/tmp"} <= writable


def test_X4_a_pod_is_given_what_its_role_needs_and_no_more() -> None:
    roles = {name: spec for name, _, spec in pods()}
    drivers = {"tidegate-live", "dagster-code", "tidegate-upkeep"}
    for name, spec in roles.items():
        (container,) = spec["containers"]
        given = secrets()[container["envFrom"][0]["secretRef"]["name"]]
        assert (spec["serviceAccountName"] == "tidegate-spark") == (name in drivers), name
        assert (spec.get("automountServiceAccountToken") is False) == (name not in drivers), name
        assert ("TIDEGATE_S3_SECRET" in given) == (name in drivers), name
        assert ("DAGSTER_PG_URL" in given) == name.startswith("dagster"), name
        assert container["resources"]["limits"]["memory"]
    (binding,) = [d for d in documents() if d["kind"] == "RoleBinding"]
    assert [subject["name"] for subject in binding["subjects"]] == ["tidegate-spark"]


def test_X4_each_role_has_a_secret_of_its_own() -> None:
    given = [spec["containers"][0]["envFrom"][0]["secretRef"]["name"] for _, _, spec in pods()]
    # Dagster's two programs without a driver are one role: both keep records, and no more.
    assert sorted(given) == ["tidegate-dagster"] * 2 + [
        "tidegate-dagster-code",
        "tidegate-live",
        "tidegate-upkeep",
    ]


def test_X4_nobody_talks_to_anybody_unless_it_is_listed() -> None:
    policies = {d["metadata"]["name"]: d["spec"] for d in documents() if d["kind"] == "NetworkPolicy"}
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    apps = {metadata["labels"]["app"] for _, metadata, _ in pods()} | {"tidegate-executor"}
    named = set(re.findall(r"app: ([\w-]+)|values: \[([^\]]+)\]", (KUBERNETES / "network.yaml").read_text()))
    listed = {app.strip() for pair in named for text in pair for app in text.split(",") if app.strip()}
    assert listed == apps
    settings = yaml.safe_load((KUBERNETES / "tidegate.yaml").read_text())["spark"]["conf"]
    for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert settings[name] is True
    # What Spark takes by itself, CTR, does not notice what somebody on the way has changed (CVE-2025-55039).
    assert settings["spark.network.crypto.cipher"] == "AES/GCM/NoPadding"
    assert settings["spark.kubernetes.authenticate.serviceAccountName"] == "tidegate-spark"


@pytest.mark.medium
def test_kustomize_renders() -> None:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = [
        text.rpartition("=")[2] for made in kustomization["configMapGenerator"] for text in made["files"]
    ]
    there = {file.name for file in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert {*kustomization["resources"], *files} == there
    assert [image["name"] for image in kustomization["images"]] == ["tidegate"]
    # It renders without a cluster, where it is installed.
    if shutil.which("kubectl") is None:
        return
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rendered = list(yaml.safe_load_all(done.stdout))
    assert len(rendered) > len(list(documents()))
    used = {
        c["image"]
        for d in rendered
        if d["kind"] == "Deployment"
        for c in d["spec"]["template"]["spec"]["containers"]
    }
    assert used == {"registry.example/tidegate:0.1"}
