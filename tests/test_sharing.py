"""The tests that need Spark go to half of the processes, which the others leave alone for little: it takes a JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.sharing import Sharing, say


class Process:
    """A process of xdist's, which ends its tests when it is told to."""

    def __init__(self, name: str, tests: list[str]) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.workerinput: dict[str, Any] = {}
        self.tests, self.waiting, self.shutting_down = tests, [], False

    def send_runtest_some(self, places: list[int]) -> None:
        self.waiting += places

    def shutdown(self) -> None:
        self.shutting_down = True


def shared(
    tests: list[str], with_spark: list[str], slow: str | None = None, count: int = 3
) -> dict[str, list[str]]:
    """The modules that each process gets, in their order. `slow`: a process that is slower than others."""
    sharing = Sharing()
    processes = [Process(f"gw{n}", tests) for n in range(count)]
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(option=option, getvalue={"dist": "loadscope", "tx": ["popen"] * count}.get)
    scheduler = sharing.pytest_xdist_make_scheduler(config, None)
    assert scheduler is not None
    for process in processes:
        sharing.pytest_configure_node(process)  # type: ignore[arg-type]
        scheduler.add_node(process)  # type: ignore[arg-type]
        say(SimpleNamespace(workerinput=process.workerinput), with_spark)  # type: ignore[arg-type]
        scheduler.add_node_collection(process, tests)  # type: ignore[arg-type]
    scheduler.schedule()
    ran: dict[str, list[str]] = {process.gateway.id: [] for process in processes}
    turn = 0
    while scheduler.has_pending:
        turn += 1
        for process in processes:
            if process.waiting and (process.gateway.id != slow or turn % 20 == 0):
                ran[process.gateway.id].append(tests[place := process.waiting.pop(0)].split("::")[0])
                scheduler.mark_test_complete(process, place)  # type: ignore[arg-type]
    assert all(process.shutting_down for process in processes)
    assert sorted(m for own in ran.values() for m in own) == sorted(test.split("::")[0] for test in tests)
    return ran


def of(*modules: str) -> list[str]:
    return [f"{module}.py::test_{n}" for module in modules for n in range(3)]


def test_one_process_has_spark_and_then_helps_the_others() -> None:
    ran = shared(of("sinks", "live", "gate", "views", "words", "docs"), of("sinks", "live"))
    assert ran["gw0"][:6] == [test.split("::")[0] for test in of("sinks", "live")]
    assert not {"sinks.py", "live.py"} & {*ran["gw1"], *ran["gw2"]}
    assert {"gate.py", "views.py"} <= {*ran["gw1"], *ran["gw2"]}


def test_of_four_processes_two_have_spark() -> None:
    ran = shared(of("sinks", "live", "gate", "views", "words", "docs"), of("sinks", "live"), count=4)
    assert {ran["gw0"][0], ran["gw1"][0]} == {"sinks.py", "live.py"}
    assert not {"sinks.py", "live.py"} & {*ran["gw2"], *ran["gw3"]}


def test_tests_of_one_module_that_need_no_spark_do_not_wait_for_it() -> None:
    tests = of("sinks", "gate", "views", "words")
    ran = shared(tests, tests[:2])
    assert ran["gw0"][:2] == ["sinks.py", "sinks.py"]
    assert ran["gw1"].count("sinks.py") + ran["gw2"].count("sinks.py") == 1


@pytest.mark.parametrize(("modules", "helped"), [(6, False), (30, True)])
def test_another_jvm_is_started_for_much_alone(modules: int, helped: bool) -> None:
    spark = of(*(f"spark{n}" for n in range(modules)))
    ran = shared([*spark, *of("gate", "words")], spark, slow="gw0")
    others = {*ran["gw1"], *ran["gw2"]} - {"gate.py", "words.py"}
    assert bool(others) == helped
