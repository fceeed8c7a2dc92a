"""Guards of commands that another process carries out: who may ask, for what, and with which files."""

from __future__ import annotations

from tests.mutants.guard import Guard

_COMMANDS, _TALKING = ("tests/warm/test_commands.py",), ("tests/warm/test_talking.py",)

GUARDS = (
    Guard(
        "likeness",
        "R4",
        "A process of other files, settings or credentials does not answer.",
        "warm/likeness.py",
        "if not hmac.compare_digest(own, str(proof.get(name))):",
        "if False:",
        ("tests/warm/test_likeness.py",),
    ),
    Guard(
        "likeness-of-groups",
        "R4",
        "Live mode carries out no run of other definitions than it works with.",
        "cli/commands/runs/live_worker.py",
        "if name in self._likeness and self._likeness[name].differs(asked.nonce, asked.proof):",
        "if False:",
        _COMMANDS,
    ),
    Guard(
        "lent-during-a-delivery",
        "R2",
        "A group is not lent to a run while one of its sinks delivers beside its ticks.",
        "session/live_driver.py",
        "while hosted.visits and not hosted.is_beside and not hosted.stop.is_set():",
        "while hosted.visits and not hosted.stop.is_set():",
        ("tests/session/test_deliveries_beside.py",),
    ),
    Guard(
        "upkeep-outlives-its-group",
        "R2",
        "The upkeep of a group ends before the group gives back its leases.",
        "session/live_driver.py",
        "hosted.opened.callback(caretaker.close)",
        "pass",
        ("tests/maintenance/test_live_upkeep.py",),
    ),
    Guard(
        "lent-during-upkeep",
        "R2",
        "A group is not lent to a run while the upkeep of one of its tables takes place beside its ticks.",
        "session/live_driver.py",
        "return delivers or (self.caretaker is not None and self.caretaker.is_under_way)",
        "return delivers",
        ("tests/maintenance/test_live_upkeep.py",),
    ),
    Guard(
        "only-reads",
        "X1",
        "A worker carries out no statement that changes something.",
        "cli/commands/runs/served.py",
        "if not only_reads(text):",
        "if False:",
        _COMMANDS,
    ),
    Guard(
        "as-defined",
        "R4",
        "A worker answers a status by what the files define, as the command itself does.",
        "cli/commands/runs/served.py",
        "catalog.versions = no_version",
        "pass",
        ("tests/warm/test_status.py",),
    ),
    Guard(
        "peer",
        "X4",
        "A worker does not answer another user.",
        "warm/desk.py",
        "if peer_user(connected) not in (os.geteuid(), None):",
        "if False:",
        _TALKING,
    ),
    Guard(
        "socket-folder",
        "X4",
        "A command asks nobody in a folder that others can write to.",
        "warm/places.py",
        "if _foreign(state_dir, env) or stat.S_IMODE(folder.lstat().st_mode) & 0o077:",
        "if False:",
        _TALKING,
    ),
    Guard(
        "opened-anew",
        "R2",
        "A group does not go on from what it had open before a run wrote its tables.",
        "session/visits.py",
        "group.open_anew()",
        "pass",
        _COMMANDS,
    ),
)
