"""What sensors have told, in files that `tidegate alerts status` reads; nothing else depends on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate.alerts.state import State
from tidegate.project import Project
from tidegate.project.disk import private_folder, write_whole


@dataclass(frozen=True)
class Journal:
    """The state of a sensor after its last tick (`at`: ISO, UTC)."""

    sensor: str
    at: str
    state: State


def write_journal(project: Project, sensor: str, state: State, now: datetime) -> None:
    """Keep it. Does nothing where the project's folder can't be written: sensors may run elsewhere."""
    folder = _folder(project)
    document = {"at": now.isoformat(timespec="seconds"), "state": state.to_json()}
    try:
        private_folder(folder)
        write_whole(folder / f"{sensor}.json", json.dumps(document))
    except OSError:
        return


def read_journals(project: Project) -> list[Journal]:
    """Those of the project's environment, by name; damaged ones are left out."""
    found = []
    for path in sorted(_folder(project).glob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            found.append(Journal(path.stem, document["at"], State.from_json(document["state"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _folder(project: Project) -> Path:
    return project.state_dir / "alerts" / project.env_name
