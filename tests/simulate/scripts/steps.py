"""The steps that histories pass, by name, and how often a fault is wished for at each of them."""

from __future__ import annotations

from tests.simulate.world.outside import FAULTS, KILLED_AFTER, LOST, Wish

#: Steps of pipelines that read files, or have topics; of tables WITH TTL; and of upkeep.
INPUT_STEPS = ("look input", "list input", "read input")
DELIVERY_STEPS = (
    *(f"{operation} staging" for operation in ("write", "delete", "look")),
    *(f"{operation} delivery" for operation in ("move", "list")),
)
STATE_STEPS = tuple(f"{operation} state" for operation in ("commit", "create", "load"))
POSITION_STEPS = tuple(
    f"{operation} position" for operation in ("write", "move", "look", "list", "read", "delete")
)
#: (The first needs more batches than a topic has in a history.)
UPKEEP_STEPS = ("delete data", "delete metadata", "list data", "list metadata")
ERASING_STEPS = tuple(
    f"{operation} erasing" for operation in ("write", "move", "look", "list", "read", "delete")
)
#: Steps by which something is decided, and those of a delivery.
DECIDING = ("move plan", "commit log", "commit view")
DELIVERING = ("look staging", "write staging", "write position")
#: Steps that each driver does again and again.
LOADS = ("load log", "load view")
#: Steps that follow only a fault, and that fault.
AFTER = {
    "fetch sink": Wish("send sink", LOST, 0),
    "delete position": Wish("write position", KILLED_AFTER, 0),
    "read plan": Wish("move plan", KILLED_AFTER, 0),
}
#: How often a pair of a step and a fault is wished for, where 1 is too seldom or too often: by what was met. First the
#: steps of each history, then those of some.
WEIGHTS = {
    "load log": 0.7,
    "load view": 0.3,
    **dict.fromkeys(("look data", "read data", "read metadata"), 0.5),
    **dict.fromkeys(("look input", "read input", "compute task", "look plan", "list plan"), 0.5),
    "list memory": 0.7,
    **dict.fromkeys(("write data", "write metadata"), 0.8),
    **dict.fromkeys(("create view", "list input", "read plan"), 1.4),
    "commit view": 2,
    "ask topic": 0.14,
    "fetch topic": 0.26,
    "look position": 0.7,
    "list position": 0.8,
    **dict.fromkeys(("write position", "move position"), 0.9),
    **dict.fromkeys(("ask sink", "delete position"), 1.2),
    "list delivery": 1.9,
    "send sink": 3.6,
    **dict.fromkeys(("look staging", "list data"), 2.6),
    "list metadata": 3,
    "delete staging": 3.8,
    "load state": 7,
    **dict.fromkeys(("delete metadata", "write staging"), 6),
    "create state": 12,
    **dict.fromkeys(("fetch sink", "move delivery"), 9),
    "commit state": 16,
    "delete data": 43,
    **dict.fromkeys(("look erasing", "write erasing"), 1.3),
    "list erasing": 2.2,
    "read erasing": 2.3,
    "move erasing": 2.8,
    "delete erasing": 10,
}
TOPIC_STEPS, SINK_STEPS = ("ask topic", "fetch topic"), ("ask sink", "fetch sink", "send sink")
#: Steps that histories pass, for which faults are wished: each pair of a step and a fault is to be met often enough.
STEPS = (
    *(f"{operation} {role}" for operation in ("commit", "create", "load") for role in ("log", "view")),
    *STATE_STEPS,
    *(f"{operation} plan" for operation in ("write", "move", "delete", "look", "list", "read")),
    *(f"{operation} data" for operation in ("write", "read", "look", "list", "delete")),
    *(f"{operation} metadata" for operation in ("write", "read", "list", "delete")),
    *INPUT_STEPS,
    *POSITION_STEPS,
    *(f"{operation} staging" for operation in ("write", "delete", "look")),
    *(f"{operation} delivery" for operation in ("move", "list")),
    *ERASING_STEPS,
    "list memory",
    "compute task",
    *TOPIC_STEPS,
    *SINK_STEPS,
)
#: Which of the steps of a name a fault is wished for: of those that few histories do at all, nearly always the first.
NTH, FIRST = (0, 0, 0, 0, 0, 1, 1, 2), (0, 0, 0, 0, 0, 0, 0, 1)


def faults_of(step: str) -> tuple[str, ...]:
    return FAULTS[step.partition(" ")[0]]
