"""The files for Docker Compose, the image and its locks, and what they share with those for Kubernetes: what one names,
another has."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.infra.deployed import COMPOSE, INFRA, KUBERNETES, compose, environment, pods
from tidegate.cli.main import app


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


#: A secret on a command line, which everybody on the machine sees in the list of processes.
ON_A_LINE = re.compile(
    r"--from-literal|(curl|wget|http) .*(-u |--user[= ]|-H [\"']?Authorization|--password)"
    r"|--(password|token|secret)[= ][\"']?\$\(|PGPASSWORD=\S+ |--docker-password"
)


def test_X4_no_page_has_a_secret_put_on_a_command_line() -> None:
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("infra/**/*.md")):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert not ON_A_LINE.search(line), f"{page.relative_to(ROOT)}:{number}: {line}"


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
