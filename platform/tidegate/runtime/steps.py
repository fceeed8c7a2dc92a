"""What a command does to several sources, views and sinks, one after the other: a failure of one leaves the others
alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line, refused, spark_gone
from tidegate.masking import masked_traceback
from tidegate.plan.events import Event, StepFailed, StepSkipped
from tidegate.project.disk import trouble
from tidegate.runtime.result import Failure, Skipped
from tidegate.sql.catalog.objects import Relation, View, reads

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Sink

#: What is stored is of another definition than the one of now: nothing may be built upon it.
_OF_ANOTHER_DEFINITION = "TG506"

#: So many inputs of a source that are not in order are named.
NAMED = 20


class Steps:
    """`failures` and `skipped` grow as steps fail. What has failed is not tried again; what reads it goes on from what
    is stored, unless that is of another definition, or the query itself is refused. `fail_fast`: the first failure is
    raised instead."""

    def __init__(self, fail_fast: bool = False, notify: Callable[[Event], None] = lambda event: None) -> None:
        self.failures: list[Failure] = []
        self.skipped: list[Skipped] = []
        self.fail_fast, self._notify = fail_fast, notify
        self._first: Exception | None = None
        self._over: set[str] = set()
        self._unusable: set[str] = set()
        self._gone = False

    def do(self, item: Relation | View | Sink, work: Callable[[], object], needed: bool = False) -> bool:
        """Do the work for `item`; whether it was done. `needed`: where it fails, nothing that reads `item` can be done.

        An AnalysisException becomes TG507, with the place of the definition.
        """
        from pyspark.errors import AnalysisException

        name = item.name
        if name in self._over:
            return False
        missing = [one for one in _reads(item) if one.casefold() in self._unusable]
        if missing or self._gone:
            why = f"it reads {' and '.join(missing)}" if missing else "Spark has stopped"
            self._skip(item, why)
            return False
        try:
            work()
        except AnalysisException as error:
            self._failed(item, refused(f'"{name}"', error, item.location), needed)
        except Exception as error:
            self._failed(item, trouble(error, item.location) or error, needed)
        else:
            return True
        return False

    def raise_first(self, done: str | None) -> None:
        """For a command that ends with an error: the first failure, with what else was not done, and what was (None:
        nothing). Nothing is raised where nothing failed."""
        if self._first is None:
            return
        lines = [*(one.text() for one in self.failures[1:]), *(one.text() for one in self.skipped)]
        lines += [f"  done      {done}"] if done else []
        error = self._first
        if not lines:
            raise error
        if not isinstance(error, TidegateError):
            error.add_note("\n".join(lines))
            raise error
        message = "\n".join([error.message, *lines])
        found = TidegateError(error.code, message, hint=error.hint, location=error.location)
        found.continued = error.continued
        raise found from error

    def _failed(self, item: Relation | View | Sink, error: Exception, needed: bool) -> None:
        if self.fail_fast:
            raise error
        self._first = self._first or error
        self._over.add(item.name)
        known = error if isinstance(error, TidegateError) else None
        if needed or (known is not None and known.code == _OF_ANOTHER_DEFINITION and not known.continued):
            self._unusable.add(item.name.casefold())
        self._gone = spark_gone(f'"{item.name}"') is not None
        told = {"code": None, "message": one_line(error), "traceback": masked_traceback(error)}
        if known is not None:
            told = known.to_dict()
        failure = Failure(item.name, kind_of(item), told)
        self.failures.append(failure)
        self._notify(StepFailed(failure.name, failure.kind, failure.error))

    def _skip(self, item: Relation | View | Sink, why: str) -> None:
        self._over.add(item.name)
        self._unusable.add(item.name.casefold())
        self.skipped.append(Skipped(item.name, kind_of(item), why))
        self._notify(StepSkipped(item.name, kind_of(item), why))


def kind_of(item: Relation | View | Sink) -> str:
    """`source`, `table`, `view` or `sink`."""
    if isinstance(item, View):
        return "view"
    return item.kind if isinstance(item, Relation) else "sink"


def _reads(item: Relation | View | Sink) -> Iterable[str]:
    return reads(item) if isinstance(item, Relation | View) else (item.upstream,)


class SeveralInputs(TidegateError):
    """What is wrong with several inputs of one source: the error of the first, and in its text that of the others, up
    to `NAMED` in all. `others`: those that are named beside the first."""

    def __init__(self, problems: Sequence[TidegateError]) -> None:
        first, others, rest = problems[0], problems[1:NAMED], problems[NAMED:]
        lines = [first.message, *(f"also {one.code}: {one.message}" for one in others)]
        if rest:
            codes = Counter(str(one.code) for one in rest)
            lines.append(
                f"and {len(rest):,} more: {', '.join(f'{codes[code]:,} of {code}' for code in sorted(codes))}"
            )
        # A hint says what to do about all of its code.
        hints = {one.code: one.hint for one in reversed(problems) if one.hint}
        own = hints.pop(first.code, None)
        hint = [own] if own else []
        hint += [f"for {code}: {hints[code]}" for code in sorted(hints)]
        super().__init__(first.code, "\n".join(lines), hint="\n".join(hint) or None, location=first.location)
        self.others = tuple(others)

    def to_dict(self) -> dict[str, Any]:
        """With `others`, each as an error."""
        return {**super().to_dict(), "others": [one.to_dict() for one in self.others]}


def together(problems: list[TidegateError]) -> TidegateError:
    """One error of those of one source."""
    return problems[0] if len(problems) == 1 else SeveralInputs(problems)
