"""A script that breaks a promise, made smaller by the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulate.play import Played, play
from tests.simulate.scripts.pipelines import Pipeline
from tests.simulate.scripts.script import Arrive, Live, Script, Together
from tests.simulate.scripts.topic_acts import TopicAct, fewer, simpler


def _kind(wrong: str | None) -> str:
    """Which promise it is: what is smaller is to break the same one."""
    return (wrong or "").partition(":")[0]


def shrink(script: Script, say: Callable[[str], None] = lambda text: None) -> Played:
    """The smallest script found that breaks a promise, of one that does."""
    best = play(script)
    assert best.wrong is not None
    going = True
    while going:
        going = False
        for one in smaller(best.script):
            found = play(one)
            if found.wrong is not None and _kind(found.wrong) == _kind(best.wrong):
                best, going = found, True
                say(f"{len(one.acts)} acts, {len(one.faults or ())} faults")
                break
    return best


def smaller(script: Script) -> Sequence[Script]:
    """Scripts with something less, those with the most less first."""
    assert script.faults is not None
    found = []
    for number in range(len(script.acts)):
        acts = script.acts[:number] + script.acts[number + 1 :]
        faults = tuple(
            replace(fault, act=fault.act - (fault.act > number))
            for fault in script.faults
            if fault.act != number
        )
        found.append(Script(script.seed, script.pipeline, acts, faults))
    for number in range(len(script.faults)):
        found.append(
            Script(
                script.seed,
                script.pipeline,
                script.acts,
                script.faults[:number] + script.faults[number + 1 :],
            )
        )
    found += [replace(script, pipeline=one) for one in _plainer(script.pipeline)]
    for number, act in enumerate(script.acts):
        if isinstance(act, Live | Together):
            for file in range(len(act.files)):
                without = replace(act, files=act.files[:file] + act.files[file + 1 :])
                acts = (*script.acts[:number], without, *script.acts[number + 1 :])
                found.append(Script(script.seed, script.pipeline, acts, script.faults))
        if isinstance(act, Arrive) and len(act.rows) > 1:
            for row in range(len(act.rows)):
                less = replace(act, rows=act.rows[:row] + act.rows[row + 1 :])
                acts = (*script.acts[:number], less, *script.acts[number + 1 :])
                found.append(Script(script.seed, script.pipeline, acts, script.faults))
        elif isinstance(act, TopicAct):
            for one in fewer(act):
                acts = (*script.acts[:number], one, *script.acts[number + 1 :])
                found.append(Script(script.seed, script.pipeline, acts, script.faults))
    return found


def _plainer(pipeline: Pipeline) -> Sequence[Pipeline]:
    """Pipelines with something less."""
    found = []
    if len(pipeline.views) > 1:
        found += [replace(pipeline, views=(view,)) for view in pipeline.views]
    if pipeline.evolves and "measured" not in pipeline.views:
        found.append(replace(pipeline, evolves=False))
    if pipeline.sink or pipeline.sent is not None:
        found.append(replace(pipeline, sink=False, sent=None, upserts=False))
    if pipeline.topic is not None:
        found += [replace(pipeline, topic=one) for one in simpler(pipeline.topic)]
    return found
