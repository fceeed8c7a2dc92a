"""The files for Docker Compose, Kubernetes, Prometheus and Grafana: what one names, another has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT
from tidegate.cli.main import app
from tidegate.live.metrics import Metrics
from tidegate.project import Project

INFRA = ROOT / "infra"
COMPOSE, KUBERNETES = INFRA / "compose", INFRA / "kubernetes"
RULES = yaml.safe_load((INFRA / "prometheus" / "rules.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((INFRA / "grafana" / "tidegate.json").read_text())
#: Functions and words of PromQL, and labels, are not metrics; ours all have this prefix.
METRIC = re.compile(r"\btidegate_[a-z_]+\b")


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


def exported() -> set[str]:
    """Every series name that live mode can serve."""
    names = set()
    live = ROOT / "platform" / "tidegate" / "live"
    source = "".join(path.read_text() for path in sorted(live.glob("*metrics.py")))
    for name in re.findall(r'"(tidegate_[a-z_]+)"', source):
        names |= {name, f"{name}_total", f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    return names


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_metric_that_a_rule_or_panel_asks_for_is_exported() -> None:
    asked = {name for text in expressions() for name in METRIC.findall(text)}
    assert asked - exported() == set()
    assert {
        "tidegate_partition_event_time_lag_seconds",
        "tidegate_partition_lag_rows",
        "tidegate_rows_total",
        "tidegate_view_frontier_seconds",
        "tidegate_batch_seconds_bucket",
        "tidegate_commit_seconds_bucket",
        "tidegate_worker_restarts_total",
    } <= asked


def test_the_page_about_live_mode_lists_the_metrics_that_there_are() -> None:
    page = (ROOT / "docs" / "live.md").read_text()
    source = (ROOT / "platform" / "tidegate" / "live" / "metrics.py").read_text()
    listed = set(METRIC.findall(page))
    assert [n for n in re.findall(r'"(tidegate_[a-z_]+)"', source) if not {n, f"{n}_total"} & listed] == []


def test_counters_are_asked_for_by_the_names_that_prometheus_gets() -> None:
    served = Metrics(
        read=lambda: None,
        pids=dict,
        health=lambda: {"groups": {"all": {"state": "running", "healthy": True}}},
    )  # type: ignore[arg-type, return-value]
    served.expect("all")
    families = list(text_string_to_metric_families(generate_latest(served.registry).decode()))
    counters = {sample.name for family in families for sample in family.samples if family.type == "counter"}
    assert "tidegate_worker_restarts_total" in counters


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_is_wrong(rule: dict[str, Any]) -> None:
    assert rule["annotations"]["summary"]
    assert rule["labels"]["severity"] in ("page", "ticket") or rule["alert"] == "TidegateWatchdog"
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_page_about_live_mode_lists_the_alerts_that_there_are() -> None:
    listed = re.findall(
        r"^\| `(Tidegate\w+)` \| (\w+) \|", (ROOT / "docs" / "live.md").read_text(), re.MULTILINE
    )
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


@pytest.mark.medium
def test_alerts_fire_when_they_should_by_prometheus_itself() -> None:
    """What live mode tells of has alerts with tests of their own; so has that it tells nothing any more."""
    tested = yaml.safe_load((INFRA / "prometheus" / "rules_test.yaml").read_text())["tests"]
    fired = {a["alertname"] for test in tested for a in test["alert_rule_test"] if a["exp_alerts"]}
    assert fired >= {
        "TidegateGone",
        "TidegateDown",
        "TidegateWatchdog",
        "TidegateWorkerDown",
        "TidegateWorkerHangs",
        "TidegateErrors",
    }
    assert fired <= {rule["alert"] for rule in RULES}
    for words in (["check", "config", "prometheus.yaml"], ["test", "rules", "rules_test.yaml"]):
        done = run_tool(["promtool", *words])
        assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_takes_its_example_and_sends_the_watchdog_outside() -> None:
    example = yaml.safe_load((INFRA / "prometheus" / "alertmanager.yaml").read_text())
    route = example["route"]["routes"][0]
    assert route["matchers"] == ['alertname = "TidegateWatchdog"']
    assert route["receiver"] in {receiver["name"] for receiver in example["receivers"]}
    done = run_tool(["amtool", "check-config", "alertmanager.yaml"])
    assert done.returncode == 0, done.stdout + done.stderr


def run_tool(words: list[str]) -> subprocess.CompletedProcess[str]:
    folder = INFRA / "prometheus"
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_panels_do_not_overlap_and_have_unique_ids() -> None:
    panels = DASHBOARD["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)


def images() -> Iterator[str]:
    yield from {service["image"] for service in compose()["services"].values()}
    yield from re.findall(r"^FROM (\S+)", (INFRA / "Dockerfile").read_text(), re.MULTILINE)
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    yield from (f"{image['newName']}:{image['newTag']}" for image in kustomization["images"])


@pytest.mark.parametrize("image", sorted(set(images())))
def test_every_image_is_pinned(image: str) -> None:
    name, _, tag = image.rpartition(":")
    assert name
    assert re.search(r"\d", tag)
    assert tag != "latest"


LOCKS = sorted(INFRA.glob("*.lock"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_of_a_lock_is_pinned_with_sums(lock: Path) -> None:
    text = lock.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        assert re.match(r"[a-z0-9-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line


def test_the_image_has_what_every_extra_for_users_needs_and_no_more_than_the_tests_had() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = {lock.name: set(re.findall(r"^(\S+==\S+)", lock.read_text(), re.MULTILINE)) for lock in LOCKS}
    names = {pin.split("==")[0] for pin in pins["image.lock"]}
    for extra in extras.keys() - {"dev", "demo"}:
        assert {re.split(r"[=><\[]", wanted)[0] for wanted in extras[extra]} <= names
    assert pins["image.lock"] <= pins["requirements.lock"]
    assert "-r infra/image.lock" in (INFRA / "Dockerfile").read_text()


def test_pip_takes_nothing_without_a_sum() -> None:
    """Everywhere that something is installed, but for the project itself."""
    for file in (ROOT / "Makefile", INFRA / "Dockerfile"):
        installs = re.findall(r"(?:PIP\)|pip install) +(.*)", file.read_text())
        installs = [words for words in installs if not words.startswith("--quiet")]
        assert installs
        assert all("--require-hashes" in words or "--no-deps" in words for words in installs), file


def test_compose_names_services_and_volumes_that_are_there() -> None:
    file = compose()
    for name, service in file["services"].items():
        assert set(service.get("depends_on", ())) <= file["services"].keys(), name
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (COMPOSE / source).is_file(), f"{name}: {source}"
            else:
                assert source in file["volumes"], f"{name}: {source}"
    build = file["services"]["spark-master"]["build"]
    assert (COMPOSE / build["context"] / build["dockerfile"]).is_file()


def test_compose_publishes_on_loopback_only_and_takes_secrets_from_the_environment() -> None:
    text = (COMPOSE / "docker-compose.yaml").read_text()
    ports = [port for s in compose()["services"].values() for port in s.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    named = set(re.findall(r"\$\{([A-Z_]+)", text))
    given = {line.split("=")[0] for line in (COMPOSE / "env.example").read_text().splitlines() if "=" in line}
    assert named == given


def test_the_environment_of_the_containers_loads_with_what_they_are_given(tmp_path: Path) -> None:
    given = compose()["services"]["live"]["environment"]
    project = environment(tmp_path, COMPOSE / "tidegate.yaml", given)
    services = compose()["services"]
    assert project.env.spark.master == "spark://spark-master:7077"
    assert "--port 7077" in services["spark-master"]["command"]
    assert project.env.warehouse.storage.endpoint == "http://minio:9000"
    bucket = project.storage.warehouse.removeprefix("s3://").split("/")[0]
    assert services["bucket"]["command"].endswith(f"lake/{bucket}")


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


def secrets() -> dict[str, list[str]]:
    """The names in each secret that the README has people make."""
    text = (KUBERNETES / "README.md").read_text()
    files: dict[str, list[str]] = {}
    for file, names in re.findall(r"#   (\S+\.env) (.*)", text):
        files.setdefault(file, []).extend(re.findall(r"[A-Z][A-Z0-9_]+", names))
    made = re.findall(r"create secret generic (\S+) --from-(?:env-)?file=(\w+=)?(\S+)", text)
    return {name: [key[:-1]] if key else files[file] for name, key, file in made}


#: A secret on a command line, which everybody on the machine sees in the list of processes.
ON_A_LINE = re.compile(
    r"--from-literal|(curl|wget|http) .*(-u |--user[= ]|-H [\"']?Authorization|--password)"
    r"|--(password|token|secret)[= ][\"']?\$\(|PGPASSWORD=\S+ |--docker-password"
)


def test_X4_no_page_has_a_secret_put_on_a_command_line() -> None:
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("infra/**/*.md")):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert not ON_A_LINE.search(line), f"{page.relative_to(ROOT)}:{number}: {line}"


def environment(root: Path, file: Path, given: dict[str, Any]) -> Project:
    (root / "resources").mkdir(parents=True)
    (root / "resources" / "there.yaml").write_text(file.read_text())
    (root / "assets").mkdir()
    return Project.load(root, "there", {key: str(value) for key, value in given.items()})


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


def test_live_mode_has_probes_and_is_found_by_prometheus() -> None:
    (metadata, spec), *_ = [(m, s) for name, m, s in pods() if name == "tidegate-live"]
    (container,) = spec["containers"]
    port = container["ports"][0]["containerPort"]
    assert metadata["annotations"]["prometheus.io/port"] == str(port)
    served = (ROOT / "platform" / "tidegate" / "live" / "http.py").read_text()
    paths = {
        container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")
    }
    assert all(f'"{path}"' in served for path in paths | {metadata["annotations"]["prometheus.io/path"]})


def test_no_secret_is_written_down() -> None:
    key = re.compile(r"^\s*[\w.-]*(password|secret|credential|token)[\w.]*: *(?P<value>.+)$", re.IGNORECASE)
    found = []
    for file in sorted(INFRA.rglob("*.yaml")):
        for line in file.read_text().splitlines():
            if (match := key.match(line)) and match["value"] not in ("true", "false"):
                found.append(match["value"])
                assert match["value"].startswith("${"), f"{file.name}: {line}"
    assert len(found) > 5


def commands() -> Iterator[list[str]]:
    """Every call of our command line in these files."""
    for service in compose()["services"].values():
        words = str(service.get("command", "")).split()
        if words[:1] == ["tidegate"]:
            yield words[1:]
    for _, _, spec in pods():
        words = [str(word) for word in spec["containers"][0]["command"]]
        if "tidegate" in words:
            yield words[words.index("tidegate") + 1 :]


def test_every_command_is_one_that_we_have() -> None:
    import typer

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    found = list(commands())
    assert {words[0] for words in found} >= {"live", "upkeep"}
    for words in found:
        options = {option for p in known[words[0]].params for option in p.opts}
        assert {word for word in words if word.startswith("--")} <= options, words


def test_every_deployment_has_the_settings_of_dagster_that_are_explained_in_one_place() -> None:
    explained = yaml.safe_load((INFRA / "dagster" / "dagster.yaml").read_text())
    assert explained["storage"]["postgres"]["postgres_url"] == {"env": "DAGSTER_PG_URL"}
    assert explained["concurrency"]["pools"] == {"default_limit": 1, "granularity": "run"}
    assert explained["run_monitoring"]["enabled"]
    assert explained["run_retries"]["enabled"]
    for folder in (COMPOSE, KUBERNETES):
        copy = yaml.safe_load((folder / "dagster.yaml").read_text())
        # How many Spark drivers there is room for is all that differs.
        copy["concurrency"]["runs"]["max_concurrent_runs"] = 4
        assert copy == explained


def test_dagster_takes_its_settings(tmp_path: Path) -> None:
    from dagster._core.instance.config import dagster_instance_config

    shutil.copy(INFRA / "dagster" / "dagster.yaml", tmp_path)
    settings, _ = dagster_instance_config(str(tmp_path))
    assert settings["retention"]["sensor"]["purge_after_days"]["failure"] == 30


def test_addresses_of_postgresql_name_the_driver_that_is_installed() -> None:
    """SQLAlchemy 2.1 means psycopg 3 by `postgresql://`, and Dagster brings psycopg2."""
    given = [compose()["x-tidegate"]["environment"]["DAGSTER_PG_URL"]]
    given += re.findall(r"DAGSTER_PG_URL=(\S+)", (KUBERNETES / "README.md").read_text())
    assert len(given) == 3
    assert all(url.startswith("postgresql+psycopg2://") for url in given)


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
