"""Known vulnerabilities of what tidegate is made of: `python -m infra.advisories dist/sbom.json LOCK …` (`make audit`).

It asks OSV about each jar of the bill of materials, about what is packed in them, and about the jars of files of sums
(`--sums`); pip-audit asks it about the packages of the locks. It ends with 0 if all that is known is accepted
(`accepted.toml`), with 1 if something is not, and with 2 if not every question was answered.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.advisories.accepted import FILE, Accepted, read, reason
from infra.advisories.osv import URL, Advisory, CannotAsk, Osv
from infra.advisories.packages import audit
from infra.jar_parts import part_of_ivy_name

NOTHING, NOT_ACCEPTED, NO_ANSWER = 0, 1, 2


@dataclass(frozen=True)
class Finding:
    id: str
    aliases: tuple[str, ...]
    part: str
    #: The jars that the part is packed in; empty if it is a jar or a package of its own.
    packed_in: tuple[str, ...]
    summary: str
    fixed: tuple[str, ...]
    #: Why it is accepted; None if it is not.
    accepted: str | None


def jars(bill: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The addresses of all artifacts of Maven in a bill of materials, without classifiers, each with the one that it is
    packed in."""
    for component in bill["components"]:
        outer = str(component.get("purl", "")).partition("?")[0]
        if outer.startswith("pkg:maven/"):
            yield outer, None
            for inner in component.get("components", ()):
                yield str(inner["purl"]).partition("?")[0], outer


def places(bill: Mapping[str, Any], sums: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """{address of an artifact: the jars that it is packed in}."""
    found: dict[str, set[str]] = {}
    for purl, outer in jars(bill):
        found.setdefault(purl, set()).update({outer} - {None})  # type: ignore[arg-type]
    for file in sums:
        for line in file.read_text().splitlines():
            found.setdefault(part_of_ivy_name(line.split()[1]).purl, set())
    return {purl: tuple(sorted(outer)) for purl, outer in found.items()}


def findings(
    about: Mapping[str, Sequence[Advisory]],
    packed_in: Mapping[str, tuple[str, ...]],
    accepted: Sequence[Accepted],
) -> list[Finding]:
    """One finding for each advisory of each part, those that are not accepted first."""
    found = [
        Finding(
            advisory.id,
            advisory.aliases,
            purl,
            packed_in.get(purl, ()),
            advisory.summary,
            advisory.fixed,
            reason(accepted, purl, {advisory.id, *advisory.aliases}),
        )
        for purl, advisories in about.items()
        for advisory in advisories
    ]
    return sorted(found, key=lambda one: (one.accepted is not None, one.part, one.id))


def show(found: Sequence[Finding]) -> None:
    for one in found:
        name = one.part.removeprefix("pkg:").partition("/")[2].replace("/", ":").replace("@", " ")
        state = "not accepted" if one.accepted is None else "accepted"
        inside = (
            f", packed in {', '.join(p.rpartition('/')[2] for p in one.packed_in)}" if one.packed_in else ""
        )
        print(f"{state}: {' '.join((one.id, *one.aliases))}: {name}{inside}: {one.summary or 'no summary'}")
        print(
            f"  why: {one.accepted}"
            if one.accepted
            else f"  mended in: {', '.join(one.fixed) or 'no release'}"
        )
    open_ = sum(one.accepted is None for one in found)
    print(f"{len(found)} known vulnerabilities: {len(found) - open_} accepted, {open_} not")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m infra.advisories", description="Known vulnerabilities of packages and jars"
    )
    parser.add_argument("bill", type=Path, help="what make sbom wrote")
    parser.add_argument("locks", type=Path, nargs="*", help="locks of Python packages")
    parser.add_argument("--sums", type=Path, action="append", default=[], help="a file of sums of more jars")
    parser.add_argument("--osv-url", default=URL, help=f"the service, or a mirror of it (default: {URL})")
    parser.add_argument(
        "--timeout", type=float, default=20, help="seconds to wait for each answer (default: 20)"
    )
    parser.add_argument("--accepted", type=Path, default=FILE, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    packed_in = places(json.loads(given.bill.read_text()), given.sums)
    try:
        about = dict(Osv(given.osv_url, given.timeout).about(packed_in, tell))
        for lock in given.locks:
            tell(f"Asking about the packages of {lock} …")
            about |= audit(lock, given.osv_url, given.timeout)
    except CannotAsk as error:
        tell(f"error: {error}; nothing is known of what it was asked (--osv-url: a mirror of OSV)")
        return NO_ANSWER
    found = findings(about, packed_in, read(given.accepted))
    if given.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
    else:
        show(found)
    return NOT_ACCEPTED if any(one.accepted is None for one in found) else NOTHING


if __name__ == "__main__":
    sys.exit(main())
