"""`dg scaffold defs tidegate.dagster.TidegateProject NAME --project-path DIR`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dagster.components import Scaffolder, ScaffoldRequest, scaffold_component
from pydantic import BaseModel, Field


class TidegateProjectParams(BaseModel):
    """Options of the scaffold command."""

    project_path: str = Field(
        description="Folder of the tidegate project, relative to where the command runs."
    )
    env: str | None = Field(default=None, description="Which resources/<env>.yaml.")


class TidegateProjectScaffolder(Scaffolder[TidegateProjectParams]):
    """Writes the component's YAML; the project itself is made by `tidegate init`."""

    @classmethod
    def get_scaffold_params(cls) -> type[TidegateProjectParams]:
        """The options."""
        return TidegateProjectParams

    def scaffold(self, request: ScaffoldRequest[TidegateProjectParams]) -> None:
        """Write defs.yaml with the project's path, relative to the Dagster project so that it can be moved."""
        target = Path(request.params.project_path).expanduser().resolve()
        base = request.project_root.resolve() if request.project_root else None
        relative = Path(os.path.relpath(target, base)).as_posix() if base else None
        project = f"{{{{ project_root }}}}/{relative}" if relative else str(target)
        attributes: dict[str, Any] = {"project": project}
        if request.params.env is not None:
            attributes["env"] = request.params.env
        scaffold_component(request, attributes)
