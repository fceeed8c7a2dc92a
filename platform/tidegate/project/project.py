"""A project: a folder whose `assets/*.sql` define what there is, and `resources/*.yaml` where it is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidegate.errors import FAIL_FAST, Location, Problems, TidegateError, did_you_mean
from tidegate.project.disk import private_folder, temporary_space, write_whole
from tidegate.project.environment import AllowSettings, Environment
from tidegate.project.folder import is_project
from tidegate.project.owner import Owner
from tidegate.project.reading.strict import validate
from tidegate.project.reading.variables import Listed
from tidegate.project.reading.yamlfile import YamlFile, read_yaml
from tidegate.project.storage import Storage

if TYPE_CHECKING:
    from tidegate.project.jobs.jobs import Jobs
    from tidegate.project.reach import Reach
    from tidegate.sql.catalog.catalog import Catalog

_DEFAULT_ENVIRONMENT = "local"


@dataclass(frozen=True)
class Project:
    """A loaded project. `root` is absolute; `env_name` names the environment, `env` is what it says. `lender`: the
    namespace whose sources and tables an environment with `reads` reads; `lending`: says which views of its storage and
    catalog such an environment reads there, too (`runtime/lending.py`); None: it computes all of them. `texts`: what
    `assets()` gives, as it was read once; None: it reads the files. `gate_names`: says which implicit gates are stored
    under a name of the first release, by their names of now (`runtime/stored_gates.py`); None: none is."""

    root: Path
    env_name: str = _DEFAULT_ENVIRONMENT
    env: Environment = field(default_factory=Environment)
    is_temporary: bool = False
    lender: str | None = None
    lending: Callable[[Storage, Catalog], frozenset[str]] | None = None
    texts: tuple[tuple[str, str], ...] | None = None
    gate_names: Callable[[Storage, Catalog], Mapping[str, str]] | None = None

    @classmethod
    def load(
        cls,
        root: Path | str,
        env: str = _DEFAULT_ENVIRONMENT,
        environ: Mapping[str, str] | None = None,
    ) -> Project:
        """The project in folder `root`, in environment `env` (`resources/<env>.yaml`).

        `local` needs no file. `environ` replaces the process environment for `${NAME}`. Raises TG601 (no
        project here), TG602 (no such environment), TG603–TG607 (bad file). `catalog()` reads definitions.
        """
        folder = Path(os.path.abspath(Path(root).expanduser()))
        if not is_project(folder):
            what = "has neither assets/ nor resources/" if folder.is_dir() else "does not exist"
            raise TidegateError(
                "TG601", f"{folder} {what}: not a tidegate project", hint="tidegate init DIR creates one"
            )
        settings, file = _environment(folder, env, environ)
        if settings.reads is None:
            return cls(folder, env, settings)
        place = file.locate(("reads",)) if file is not None else None
        lent, _ = _environment(folder, settings.reads, environ, place)
        own = settings.warehouse.namespace
        if lent.reads is not None or own == lent.warehouse.namespace:
            what = (
                "must not have reads: itself" if lent.reads is not None else f"uses the same namespace, {own}"
            )
            raise TidegateError("TG605", f'reads: environment "{settings.reads}" {what}', location=place)
        warehouse = lent.warehouse.model_copy(update={"namespace": own})
        settings = settings.model_copy(
            update={"warehouse": warehouse, "project": settings.project or lent.project}
        )
        return cls(folder, env, settings, lender=lent.warehouse.namespace)

    @classmethod
    def temporary(cls, allow: AllowSettings | None = None) -> Project:
        """An empty project in a new temporary folder, with the default environment; `remove()` deletes it. Without
        `allow`, SQL may also reach the working directory."""
        folder = Path(tempfile.mkdtemp(prefix="tidegate-project-", dir=temporary_space()))
        (folder / "assets").mkdir()
        allow = allow or AllowSettings(folders=[".", os.getcwd()])
        return cls(folder, env=Environment(allow=allow), is_temporary=True)

    def remove(self) -> None:
        """Delete a temporary project, its tables included. Does nothing to any other."""
        if self.is_temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.root.name or "project"

    @property
    def owner(self) -> Owner:
        """Whom the tables belong to that it makes (X3)."""
        return Owner(self.env.project or self.name, self.env_name)

    @property
    def reach(self) -> Reach:
        """What SQL may reach (X1)."""
        from tidegate.project.reach import Reach

        return Reach(self.root, self._file, self.env.allow, self.env.warehouse.path)

    @property
    def variables(self) -> Listed:
        """What `${NAME}` may stand for in `assets/`, `jobs/` and `quality/` (X1)."""
        allow = self.env.allow
        return Listed(os.environ, allow.variables, self._file, allow.alerts)

    @property
    def _file(self) -> str:
        return f"resources/{self.env_name}.yaml"

    @property
    def state_dir(self) -> Path:
        """`<root>/.tidegate`: what tidegate itself keeps; not created before something is written."""
        return self.root / ".tidegate"

    @cached_property
    def storage(self) -> Storage:
        """Where the environment's tables are."""
        if self.lender is None:
            return Storage(self.root, self.env.warehouse, owner=self.owner)
        return self.storage_of(self.catalog())

    def storage_of(self, catalog: Catalog) -> Storage:
        """Where the tables of what `catalog` has are: of a part of the project, where other parts can't be read."""
        if self.lender is None:
            return self.storage
        # What a statement made is this working copy's own: only what files define is somebody else's.
        lent = frozenset(r.name for r in catalog.relations if not self.is_interactive(r.name))
        storage = Storage(self.root, self.env.warehouse, self.lender, lent, self.owner)
        views = self.lending(storage, catalog) if self.lending is not None else frozenset()
        return replace(storage, lent=lent | {name for name in views if not self.is_interactive(name)})

    def foreign_sinks(self, catalog: Catalog) -> list[str]:
        """Sinks that only the environment delivers that this one reads (`lender`)."""
        return [s.name for s in catalog.sinks if self.lender is not None and not self.is_interactive(s.name)]

    def assets(self, problems: Problems = FAIL_FAST) -> list[tuple[str, str]]:
        """(file name relative to the root, text) of `assets/**/*.sql`, then of interactive definitions."""
        if self.texts is not None:
            return list(self.texts)
        files = sorted(p for p in (self.root / "assets").rglob("*.sql") if p.is_file())
        files += sorted(self._definitions.glob("*.sql"))
        found = []
        for path in files:
            with problems.caught():
                found.append((path.relative_to(self.root).as_posix(), _read(path, self.root)))
        return found

    def catalog(self, problems: Problems = FAIL_FAST, instead: Mapping[str, str] | None = None) -> Catalog:
        """Everything the project defines, resolved, with what its front matter says. Raises the TG2xx errors of SQL
        and the TG60x of YAML, with places; `problems` takes all of them down instead. `instead`: CREATE statements in
        the place of those that were made interactively, by name."""
        from tidegate.project.front_matter import annotate
        from tidegate.project.kept_definitions import analysed
        from tidegate.project.schemas import schema_reader

        _require_interpreted_sqlglot()
        texts = {self._definition(name): sql for name, sql in (instead or {}).items()}
        files = [(name, texts.get(self.root / name, text)) for name, text in self.assets(problems)]
        schemas = schema_reader(self.root)
        if problems is not FAIL_FAST:
            # (Who takes down problems asks about the files, and may have no catalog of tables.)
            from tidegate.sql.statements.analysis import load_catalog

            catalog = load_catalog(files, schemas, problems, self.reach)
        else:
            # (What is there for a moment does not take the place of what comes again.)
            owner = None if self.is_temporary or instead else (self.root, self.env_name)
            catalog = analysed(owner, files, schemas, self.reach)
            find = self.gate_names
            if find is not None and (names := find(self.storage_of(catalog), catalog)):
                catalog = analysed(owner, files, schemas, self.reach, names)
        for one in (*catalog.relations, *catalog.views, *catalog.sinks):
            with problems.caught(one.name):
                self.env.warehouse.catalog.require_name(one.name, one.location)
        annotate(catalog, problems, self.variables)
        return catalog

    def jobs(self, problems: Problems = FAIL_FAST) -> Jobs:
        """Schedules and thresholds of `jobs/*.yaml`; their names are checked by `Jobs.check`. Schedules of front matter
        are in the catalog (`jobs.schedules_of`)."""
        from tidegate.project.jobs.jobs import load_jobs

        return load_jobs(self.root, problems, self.variables)

    def save_definition(self, name: str, sql: str) -> Path:
        """Keep the CREATE statement of an interactively made `name`, so that later sessions of this environment know
        it. Raises TG607 for a name that the environment's catalog can't have."""
        self.env.warehouse.catalog.require_name(name)
        private_folder(self._definitions)
        target = self._definition(name)
        write_whole(target, sql.rstrip().rstrip(";") + ";\n")
        return target

    def is_interactive(self, name: str) -> bool:
        """Whether `name` was made by a statement, and not by a file in assets/."""
        return self._definition(name).is_file()

    def drop_definition(self, name: str) -> bool:
        """Forget what `save_definition` kept. False if `name` was not made interactively."""
        target = self._definition(name)
        existed = target.is_file()
        target.unlink(missing_ok=True)
        return existed

    @property
    def _definitions(self) -> Path:
        """What statements made in this environment. Earlier releases kept one folder for all: that is the default
        environment's."""
        every = self.state_dir / "definitions"
        if self.env_name == _DEFAULT_ENVIRONMENT:
            for before in sorted(every.glob("*.sql")):
                (every / _DEFAULT_ENVIRONMENT).mkdir(exist_ok=True)
                # Another process may be doing the same.
                with suppress(FileNotFoundError):
                    before.replace(every / _DEFAULT_ENVIRONMENT / before.name)
        return every / quote(self.env_name, safe="")

    def _definition(self, name: str) -> Path:
        return self._definitions / f"{quote(name, safe='')}.sql"


def _environment(
    folder: Path, env: str, environ: Mapping[str, str] | None, location: Location | None = None
) -> tuple[Environment, YamlFile | None]:
    """One environment, and its file. `location`: where it is named, if in a file."""
    names = environments(folder)
    # By name from the folder's listing: `--env ../x` must not read other files.
    if env in names:
        file = read_yaml(folder / "resources" / f"{env}.yaml", f"resources/{env}.yaml", environ)
        return validate(Environment, file), file
    if env == _DEFAULT_ENVIRONMENT:
        return Environment(), None
    known = sorted({*names, _DEFAULT_ENVIRONMENT})
    raise TidegateError(
        "TG602",
        f'there is no environment "{env}": resources/{env}.yaml does not exist',
        hint=did_you_mean(env, known) or f"environments: {', '.join(known)}",
        location=location,
    )


def environments(root: Path) -> list[str]:
    """Names of the environments that have a file."""
    return sorted(p.stem for p in (root / "resources").glob("*.yaml") if p.is_file())


def _require_interpreted_sqlglot() -> None:
    """Raise TG625 if sqlglot is compiled: no Python class can inherit from its parser then, as tidegate's does."""
    from tidegate.sql.dialect.parsing import is_interpreted

    if not is_interpreted():
        raise TidegateError(
            "TG625",
            "this Python environment has the compiled build of sqlglot, which tidegate's SQL can't extend",
            hint="pip uninstall sqlglotc; a tool that needs it belongs in an environment of its own",
        )


def _read(path: Path, root: Path) -> str:
    try:
        # Editors on Windows put a byte order mark first.
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TidegateError(
            "TG610",
            f"{path.relative_to(root).as_posix()} is not UTF-8 text (byte {error.start})",
            hint="save it as UTF-8",
        ) from None
