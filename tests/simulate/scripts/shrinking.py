"""A script that breaks a promise, made smaller by the machine."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulate.play import Played, play
from tests.simulate.scripts.script import Script, smaller


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
