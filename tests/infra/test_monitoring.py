"""Metrics, rules, alerts and panels of Prometheus and Grafana: what one names, another has."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT
from tests.infra.deployed import INFRA, pods
from tidegate.live.metrics import Metrics

RULES = yaml.safe_load((INFRA / "prometheus" / "rules.yaml").read_text())["groups"][0]["rules"]

DASHBOARD = json.loads((INFRA / "grafana" / "tidegate.json").read_text())

#: Functions and words of PromQL, and labels, are not metrics; ours all have this prefix.
METRIC = re.compile(r"\btidegate_[a-z_]+\b")


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
