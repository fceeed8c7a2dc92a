"""What happens in one history, as plain values: written by a seed, printed as a small script, and made smaller."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from tests.simulate.scripts.changes import Apply, Back, Change, Edits
from tests.simulate.scripts.erasures import PERSON, Erase
from tests.simulate.scripts.pipelines import Pipeline
from tests.simulate.scripts.rows import FileRows, Rows
from tests.simulate.scripts.steps import (
    AFTER,
    DECIDING,
    DELIVERING,
    DELIVERY_STEPS,
    ERASING_STEPS,
    FIRST,
    INPUT_STEPS,
    LOADS,
    NTH,
    POSITION_STEPS,
    SINK_STEPS,
    STATE_STEPS,
    STEPS,
    TOPIC_STEPS,
    UPKEEP_STEPS,
    WEIGHTS,
    faults_of,
)
from tests.simulate.scripts.topic_acts import TOPIC_ACTS, Messages, Topic, TopicAct, topic_of
from tests.simulate.scripts.views import JOINS, MEASURES, OVER, VIEWS
from tests.simulate.world.outside import STALE, Fault, Wish


@dataclass(frozen=True)
class Arrive:
    """A file of rows appears in the folder of a source."""

    rows: FileRows
    of: str = "events"


@dataclass(frozen=True)
class Run:
    """A driver runs everything. `fresh`: in a new process, else in the one that is there."""

    fresh: bool = False


@dataclass(frozen=True)
class Together:
    """Two drivers run everything, in turns: each goes on for some steps. `turns`: how many. `second`: what the second
    one does: run, keep, amend or erase; `apart`: on a machine of its own, where no lease of the first is known.
    `files`: what arrives meanwhile, one at the end of each turn. `until`: the step before which a turn ends, too, the
    first time that it comes."""

    turns: tuple[int, ...]
    second: str = "run"
    apart: bool = True
    files: tuple[FileRows, ...] = ()
    until: str = ""


@dataclass(frozen=True)
class Live:
    """A supervisor keeps the groups live until nothing waits any more. `files`: what arrives meanwhile."""

    files: tuple[FileRows, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: int


@dataclass(frozen=True)
class Keep:
    """A driver does the upkeep of all tables. `orphans`: it looks for files that no snapshot knows, too."""

    orphans: bool = False


@dataclass(frozen=True)
class Amend:
    """A driver lets views absorb their late rows."""


Act = Arrive | Run | Together | Live | Wait | Keep | Amend | Change | Apply | Back | Erase | TopicAct
_ACTS = {
    kind.__name__.lower(): kind
    for kind in (Arrive, Run, Together, Live, Wait, Keep, Amend, Change, Apply, Back, Erase, *TOPIC_ACTS)
}


@dataclass(frozen=True)
class Script:
    """A history. `faults`: None: as the seed says, while it is played."""

    seed: int
    pipeline: Pipeline
    acts: tuple[Act, ...]
    faults: tuple[Fault, ...] | None = None
    wishes: tuple[Wish, ...] = ()
    share: int = 0

    def text(self) -> str:
        """As a small script: a line for each act, and for each fault."""
        lines = [f"seed {self.seed}", f"pipeline {json.dumps(asdict(self.pipeline))}"]
        for number, act in enumerate(self.acts):
            lines.append(f"{type(act).__name__.lower()} {json.dumps(asdict(act))}")
            lines += [
                f"  fault at {fault.step} {fault.nth}: {fault.kind}"
                for fault in self.faults or ()
                if fault.act == number
            ]
        return "\n".join(lines) + "\n"

    @classmethod
    def of_text(cls, text: str) -> Script:
        """What `text` gives."""
        seed, pipeline, acts, faults = 0, Pipeline(()), list[Act](), list[Fault]()
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "seed":
                seed = int(rest)
            elif word == "pipeline":
                given = json.loads(rest)
                topic = given.get("topic")
                read = {"views": tuple(given["views"]), "topic": Topic(**topic) if topic else None}
                pipeline = Pipeline(**given | read)
            elif word == "fault":
                place, _, kind = rest.removeprefix("at ").partition(": ")
                step, _, nth = place.rpartition(" ")
                faults.append(Fault(len(acts) - 1, step, int(nth), kind))
            elif word in _ACTS:
                acts.append(_act(word, json.loads(rest)))
        return cls(seed, pipeline, tuple(acts), tuple(faults))


def _act(word: str, given: Mapping[str, Any]) -> Act:
    made: Act = _ACTS[word](**{key: _frozen(value) for key, value in given.items()})
    return made


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def script_of(seed: int) -> Script:
    """The history that a seed stands for."""
    rng = Random(seed)
    if seed % 30 in _ERASING:
        return _erasing(seed, rng)
    if seed % 30 in _EDITING:
        return _editing(seed, rng)
    views = tuple(rng.sample(sorted(VIEWS.keys() - {*OVER, *JOINS, *MEASURES}), rng.choice([1, 1, 1, 1, 2])))
    if rng.random() < 0.09:
        # (What these cost is twice as much as another view.)
        views = (rng.choice(OVER),)
    elif rng.random() < 0.1:
        views = (rng.choice(JOINS),)
    pipeline = Pipeline(views, rng.choice([1, 2, 2]), rng.random() < 0.6, rng.random() < 0.3)
    if rng.random() < 0.35:
        pipeline = replace(pipeline, sink=False, sent=rng.choice(["", VIEWS[views[0]].columns[0]]))
        if VIEWS[views[0]].key and rng.random() < 0.4:
            pipeline = replace(pipeline, sent=", ".join(VIEWS[views[0]].key), upserts=True)
    if rng.random() < 0.46:
        topic = topic_of(rng)
        if views[0] in JOINS:
            topic = replace(topic, advance=False)
        pipeline = replace(pipeline, topic=topic)
        acts = _acts(rng, pipeline, Messages(rng, topic, pipeline.delivers))
    else:
        ttl = rng.random() < 0.25 and views[0] not in JOINS and not pipeline.upserts
        pipeline = replace(pipeline, ttl=ttl, ahead=pipeline.ahead and not ttl)
        if rng.random() < 0.23:
            pipeline = replace(pipeline, evolves=True)
            if rng.random() < 0.5:
                # (A sink of results that are replaced is to be made anew.)
                pipeline = replace(pipeline, views=MEASURES, sink=False, sent=None, upserts=False)
            elif views[0] in OVER:
                # These read all columns.
                pipeline = replace(pipeline, views=("hopping",), sent=pipeline.sent and "k")
        acts = _acts(rng, pipeline)
    own = tuple(_own_steps(pipeline, acts))
    drivers = [number for number, act in enumerate(acts) if isinstance(act, Run | Live | Together)]
    wishes = [_wish(rng, pipeline, own, drivers) for _ in range(rng.choice([4, 4, 4, 5]))]
    if before := {AFTER[wish.step] for wish in wishes if wish.step in AFTER}:
        wishes = [
            *sorted(before, key=str),
            *(wish if wish.act is not None else replace(wish, nth=0) for wish in wishes),
        ]
        acts = (*acts, Run(fresh=True))
    return Script(seed, pipeline, acts, None, tuple(wishes), rng.choice([0, 4, 8]))


def _own_steps(pipeline: Pipeline, acts: Sequence[Act]) -> Iterator[str]:
    """What only some histories do, among them this one."""
    if pipeline.topic:
        yield from TOPIC_STEPS
    if pipeline.sent is not None:
        yield from SINK_STEPS
    if pipeline.sink:
        yield from DELIVERY_STEPS
    if pipeline.delivers:
        yield from POSITION_STEPS
    if pipeline.ttl:
        yield from STATE_STEPS
    if any(isinstance(act, Keep) for act in acts):
        yield from UPKEEP_STEPS[bool(pipeline.topic) :]


def _wish(rng: Random, pipeline: Pipeline, own: Sequence[str], drivers: Sequence[int]) -> Wish:
    """What only some histories do is wished for where it is done; of the rest, what is seldom done more often.
    `drivers`: the acts in which a driver runs everything."""
    elsewhere = {*TOPIC_STEPS, *SINK_STEPS, *DELIVERY_STEPS, *POSITION_STEPS, *STATE_STEPS, *UPKEEP_STEPS}
    elsewhere |= {*ERASING_STEPS}
    elsewhere |= {*INPUT_STEPS} if pipeline.topic else set()
    steps = own if own and rng.random() < 0.75 else [step for step in STEPS if step not in elsewhere]
    step = rng.choices(steps, [WEIGHTS.get(step, 1) * len(faults_of(step)) for step in steps])[0]
    if step in LOADS:
        # Tables are loaded many times; most of what a driver does with them begins with its first loads.
        kind = STALE if rng.random() < 0.5 else rng.choice(faults_of(step))
        return Wish(step, kind, rng.randrange(8), rng.choice(drivers))
    nth = rng.randrange(20) if step.startswith("load ") else rng.choice(FIRST if step in own else NTH)
    return Wish(step, rng.choice(faults_of(step)), nth)


def _erasing(seed: int, rng: Random) -> Script:
    """Rows are erased between runs: of a person whom views know by the key, or some rows by their ids, which only a
    sorted view shows."""
    of_person = rng.random() < 0.6
    if of_person:
        views = tuple(rng.sample(["hopping", "tumbling"], rng.choice([1, 1, 2])))
    else:
        views = rng.choice([("sorted",), ("tumbling",), ("hopping",), ("sorted", "tumbling")])
    keeps = not of_person and views != ("sorted",)
    sink = keeps and views[0] != "sorted" and rng.random() < 0.4
    pipeline = Pipeline(views, rng.choice([1, 1, 2]), sink, rng.random() < 0.3)
    amends = not keeps and rng.random() < 0.4
    rows, acts = Rows(rng, amends, pipeline), list[Act]()
    if of_person:
        rows.be_of("x", PERSON)
    for number in range(2):
        acts += [Arrive(rows.file()) for _ in range(rng.choice([1, 2, 2]))]
        if not number:
            values = (PERSON,) if of_person else tuple(rng.sample(range(1, rows.last + 2), 2))
            recomputes = keeps and not sink and rng.random() < 0.6
            erase = Erase("k" if of_person else "id", values, keeps and not recomputes, recomputes=recomputes)
        elif amends:
            acts.append(Amend())
        chance = rng.random()
        if number and chance < 0.25:
            acts.append(Together(tuple(rng.choice([5, 12, 30, 60]) for _ in range(6)), "erase", False))
        else:
            acts.append(Live() if chance > 0.9 else Run(fresh=rng.random() < 0.3))
        acts += [Keep(True)] if rng.random() < 0.2 else []
        acts += [erase, replace(erase, resumes=True)][: 1 if number else rng.choice([1, 1, 2])]
    acts += [Arrive(rows.file()), Run()][rng.choice([0, 0, 1, 2]) :]
    wishes = [_erasing_wish(rng, ERASING_STEPS, rng.choice([0, 0, 1, 1, 2])) for _ in range(7)]
    wishes.append(_erasing_wish(rng, _ALONGSIDE, rng.randrange(1, 12)))
    return Script(seed, pipeline, tuple(acts), None, tuple(wishes), rng.choice([0, 4, 8]))


def _erasing_wish(rng: Random, steps: Sequence[str], nth: int) -> Wish:
    step = rng.choices(steps, [WEIGHTS.get(step, 1) * len(faults_of(step)) for step in steps])[0]
    return Wish(step, rng.choice(faults_of(step)), nth)


def _editing(seed: int, rng: Random) -> Script:
    """A project is edited again and again, and edits are undone, while rows arrive; what is stored follows at once,
    later, or not before the end, or goes back to what it was."""
    views = MEASURES if rng.random() < 0.3 else tuple(rng.sample(_QUERIES, rng.choice([1, 2])))
    pipeline = Pipeline(views, rng.choice([1, 2, 2]), ahead=rng.random() < 0.3, evolves=True)
    rows, edits, acts = Rows(rng, False, pipeline), _edits(rng, pipeline), list[Act]()
    for number in range(3):
        acts += [Arrive(rows.file()) for _ in range(rng.choice([1, 1, 2]))]
        chance = rng.random()
        acts.append(Live() if chance > 0.9 else Run(fresh=rng.random() < 0.4))
        if rng.random() < 0.15:
            acts += [Wait(rng.choice([61, 3600])), Keep(rng.random() < 0.5)]
        acts.append(edits.revert() if number and rng.random() < 0.4 else edits.change())
        if rng.random() < 0.75:
            acts.append(Apply(rng.random() < 0.8))
            if rng.random() < 0.4:
                acts.append(Back(rng.choice(views)))
    acts += [Arrive(rows.file()), Run(fresh=rng.random() < 0.5)]
    steps = [step for step in STEPS if step.partition(" ")[0] in ("commit", "write", "load", "compute")]
    own = {*TOPIC_STEPS, *SINK_STEPS, *DELIVERY_STEPS, *POSITION_STEPS, *STATE_STEPS, *ERASING_STEPS}
    steps = [step for step in steps if step not in own]
    wishes = [_erasing_wish(rng, steps, rng.choice([0, 1, 2, 4, 8, 12])) for _ in range(5)]
    return Script(seed, pipeline, tuple(acts), None, tuple(wishes), rng.choice([0, 5]))


#: Of thirty seeds these edit a project again and again; and the queries that its views may get.
_EDITING = (21, 27)
_QUERIES = ("hopping", "sorted", "tumbling", "visits")
#: Of thirty seeds these erase rows; and what an erasure does beside its own steps.
_ERASING = (22, 24, 26, 29)
_ALONGSIDE = ("commit log", "commit view", "write data", "read data", "compute task")


def _acts(rng: Random, pipeline: Pipeline, messages: Messages | None = None) -> tuple[Act, ...]:
    """`messages`: what happens to the topic; else files arrive."""
    acts: list[Act] = []
    amends = rng.random() < (0.8 if pipeline.upserts else 0.3) and not pipeline.ttl
    keeps = rng.random() < 0.3
    rows = Rows(rng, amends, pipeline)
    others = Rows(rng, amends, pipeline, _OTHERS) if "others" in pipeline.sources else None
    edits = _edits(rng, pipeline) if pipeline.evolves else None
    if messages is not None and messages.partitions > 1 and rng.random() < 0.07:
        acts += _awakening(rng, messages)
    for number in range(2):
        if number and rng.random() < 0.4:
            rows.be_on_time()
        if edits is not None and number:
            acts += [edits.change(), Apply(rng.random() < 0.8)][: rng.choice([1, 2, 2])]
        if messages is None:
            # (Upkeep puts two files and more together, and the next one removes these.)
            acts += [Arrive(rows.file()) for _ in range(rng.choice([2, 2, 3] if keeps else [1, 1, 2]))]
        else:
            acts += messages.acts()
        for _ in range(0 if others is None else rng.choice([1, 1, 2])):
            assert others is not None
            beside = Arrive(others.beside((messages or rows).now), "others")
            acts.insert(len(acts) - rng.choice([0, 0, 1]), beside)
        if rng.random() < (0.1 if messages is None else 0.3):
            acts.append(Wait(rng.choice([5, 60, 3600, 100_000] if messages is None else _WAITS)))
        if rng.random() < (0.9 if keeps and number else 0.05):
            acts.append(Keep(rng.random() < 0.5))
        if amends and acts and rng.random() < 0.6:
            acts.append(Amend())
        chance = rng.random()
        if chance < 0.15:
            acts.append(_together(rng, amends, pipeline, rows if messages is None else None))
        elif chance < 0.21 and messages is None:
            acts.append(Live(tuple(rows.file() for _ in range(rng.choice([0, 1, 1])))))
        else:
            acts.append(Run(fresh=rng.random() < 0.3))
    if edits is not None and rng.random() < 0.4:
        acts += [edits.change(), Arrive(rows.file()), Apply(), Run(fresh=rng.random() < 0.5)]
    if pipeline.delivers and rng.random() < 0.25:
        # Where a fault has ended the runs before, something is delivered now.
        acts.append(Run(fresh=rng.random() < 0.3))
    if keeps:
        # What was committed last is old enough for upkeep then.
        acts += [Wait(rng.choice([61, 120, 3600, 100_000])), Keep(rng.random() < 0.7)]
    return tuple(acts)


def _edits(rng: Random, pipeline: Pipeline) -> Edits:
    """Of the definitions of a project."""
    read = ["amount"] if "measured" in pipeline.views else []
    views = [] if pipeline.delivers or pipeline.views[0] in JOINS else pipeline.views
    return Edits(rng, read, views, _QUERIES)


def _awakening(rng: Random, messages: Messages) -> Sequence[Act]:
    """One partition falls silent while the others go on, until it is idle or nearly so, and wakes up."""
    silent = rng.randrange(messages.partitions)
    others = [one for one in range(messages.partitions) if one != silent]
    wait = Wait(rng.choice([289, 290, 290, 300]))
    return (
        *(messages.produce([silent]), messages.produce(others), Run(), wait),
        *(messages.produce(others), Run(), messages.produce(others), Run(), messages.produce([silent])),
        Run(),
    )


def _together(rng: Random, amends: bool, pipeline: Pipeline, rows: Rows | None) -> Together:
    """`rows`: of files, where these arrive meanwhile."""
    second = rng.choice(["run", "run", "keep", "amend" if amends else "run"])
    apart = rng.random() < (0.4 if pipeline.sink else 0.6)
    # Views and deliveries come late in a run. (What a sink has delivered into files, only its lease keeps apart.)
    far = rng.random() < 0.5 and not (apart and pipeline.sink)
    steps = [30, 60, 75, 90, 150] if far else [1, 2, 5, 12, 30]
    # What the first one knows before such a step is old when its next turn comes.
    delivers = pipeline.sink and not apart
    until = rng.choice(DELIVERING if delivers else DECIDING) if rng.random() < 0.35 else ""
    turns = (10_000, rng.choice([150, 10_000])) if until else tuple(rng.choice(steps) for _ in range(6))
    # (A partition that nobody knew when a batch was planned has no part in it.)
    more = rows and not (apart and pipeline.sink) and (rng.random() < 0.6 or (until and delivers))
    files = tuple(rows.file(known=True) for _ in range(rng.choice([1, 2]))) if rows and more else ()
    return Together(turns, "run" if until and delivers else second, apart, files, until)


#: The id of the first row of a second source.
_OTHERS = 10_001
#: Around `idle_timeout`, which is 300 seconds.
_WAITS = (5, 200, 289, 290, 299, 300, 301, 3600, 100_000)
