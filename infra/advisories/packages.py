"""What pip-audit finds in a lock of Python packages, where it asks OSV."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from infra.advisories.osv import Advisory, CannotAsk

#: pip-audit asks about one package after another; this is for all of a lock, in seconds.
LONGEST = 900


def audit(lock: Path, url: str, timeout: float, program: Path | None = None) -> dict[str, list[Advisory]]:
    """{purl: its advisories}, of the packages of `lock` that have any.

    A package that pip-audit could not ask about is an error: it calls that a package that was skipped, says that no
    vulnerability was found, and ends well.
    """
    program = program or Path(sys.executable).with_name("pip-audit")
    words = [str(program), "--disable-pip", "--require-hashes", "-r", str(lock), "--progress-spinner", "off"]
    words += ["--vulnerability-service", "osv", "--osv-url", f"{url.rstrip('/')}/v1/query"]
    words += ["--timeout", str(max(1, round(timeout))), "--format", "json", "--aliases", "on"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired as error:
        raise CannotAsk(f"pip-audit has no answer for {lock} after {LONGEST} seconds") from error
    except OSError as error:
        raise CannotAsk(f"{program} cannot be started: {error.strerror}") from error
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, LookupError, TypeError) as error:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise CannotAsk(
            f"pip-audit has no answer for {lock}: {said[-1] if said else 'it says nothing'}"
        ) from error
    skipped = [package for package in found if "skip_reason" in package]
    if skipped:
        names = ", ".join(package["name"] for package in skipped[:3])
        raise CannotAsk(f"pip-audit could not ask about {len(skipped)} packages of {lock} ({names} …)")
    if not found:
        raise CannotAsk(f"pip-audit found no packages in {lock}")
    about = {f"pkg:pypi/{p['name']}@{p['version']}": [_advisory(v) for v in p["vulns"]] for p in found}
    return {purl: advisories for purl, advisories in about.items() if advisories}


def _advisory(vulnerability: dict[str, object]) -> Advisory:
    summary = str(vulnerability.get("description") or "").strip().partition("\n")[0]
    aliases, fixed = vulnerability.get("aliases") or (), vulnerability.get("fix_versions") or ()
    assert isinstance(aliases, list | tuple)
    assert isinstance(fixed, list | tuple)
    return Advisory(str(vulnerability["id"]), tuple(map(str, aliases)), summary, tuple(map(str, fixed)))
