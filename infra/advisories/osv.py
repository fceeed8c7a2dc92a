"""What OSV (https://osv.dev), or a mirror of it, knows of the vulnerabilities of artifacts of Maven."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

URL = "https://api.osv.dev"
#: The most that the service takes in one question.
MOST_OF_A_BATCH = 1000
#: How many pages of one answer are asked for. An artifact that has more of them is an error, not an omission.
MOST_PAGES = 50
#: The largest answer that is read.
MOST_BYTES = 64 * 2**20
READERS = 8


class CannotAsk(Exception):
    """The service did not answer, or not as OSV does; nothing is known of what was asked about."""


@dataclass(frozen=True)
class Advisory:
    id: str
    #: The same vulnerability in other databases.
    aliases: tuple[str, ...]
    summary: str
    #: The versions that mend it, of any branch, as the advisory has them.
    fixed: tuple[str, ...]


class Osv:
    """One service; `timeout` is for each connection and each pause of an answer, in seconds."""

    def __init__(self, url: str = URL, timeout: float = 20) -> None:
        self.url = url.rstrip("/")
        self._timeout = timeout
        if not self.url.startswith(("https://", "http://")):
            raise CannotAsk(f"{url} is no address of a service")

    def about(
        self, purls: Iterable[str], tell: Callable[[str], None] = lambda _: None
    ) -> dict[str, list[Advisory]]:
        """{purl: its advisories}, of those that have any."""
        asked = sorted(set(purls))
        tell(f"Asking {self.url} about {len(asked)} artifacts of Maven …")
        ids: dict[str, list[str]] = {}
        for start in range(0, len(asked), MOST_OF_A_BATCH):
            self._ask(asked[start : start + MOST_OF_A_BATCH], ids)
        wanted = sorted({one for found in ids.values() for one in found})
        if wanted:
            tell(f"Reading {len(wanted)} advisories …")
        with ThreadPoolExecutor(READERS) as readers:
            known = dict(zip(wanted, readers.map(self._read, wanted), strict=True))
        about = {purl: [a for one in found if (a := known[one])] for purl, found in ids.items()}
        return {purl: advisories for purl, advisories in about.items() if advisories}

    def _ask(self, purls: Sequence[str], ids: dict[str, list[str]]) -> None:
        """Add the ids of the advisories of `purls`; an answer may come in pages."""
        questions = {purl: {"package": {"purl": purl}} for purl in purls}
        for _ in range(MOST_PAGES):
            order = list(questions)
            answer = self._call("/v1/querybatch", {"queries": list(questions.values())})
            results = answer.get("results")
            if not isinstance(results, list) or len(results) != len(order):
                raise CannotAsk(f"{self.url} did not answer as OSV does: no result for each question")
            questions = {}
            for purl, result in zip(order, results, strict=True):
                ids.setdefault(purl, []).extend(each["id"] for each in (result or {}).get("vulns", ()))
                if page := (result or {}).get("next_page_token"):
                    questions[purl] = {"package": {"purl": purl}, "page_token": page}
            if not questions:
                return
        raise CannotAsk(
            f"{self.url} has more than {MOST_PAGES} pages of advisories for {next(iter(questions))}"
        )

    def _read(self, id_: str) -> Advisory | None:
        """One advisory; None for one that was withdrawn."""
        text = self._call(f"/v1/vulns/{id_}")
        if text.get("withdrawn"):
            return None
        ranges = (one for affected in text.get("affected", ()) for one in affected.get("ranges", ()))
        events = (event for one in ranges if one.get("type") != "GIT" for event in one.get("events", ()))
        fixed = dict.fromkeys(event["fixed"] for event in events if "fixed" in event)
        said = text.get("summary") or text.get("details") or ""
        summary = said.strip().partition("\n")[0]
        return Advisory(str(text.get("id", id_)), tuple(text.get("aliases", ())), summary, tuple(fixed))

    def _call(self, path: str, question: dict[str, Any] | None = None) -> dict[str, Any]:
        body = None if question is None else json.dumps(question).encode()
        request = urllib.request.Request(
            self.url + path, body, {"Content-Type": "application/json", "User-Agent": "tidegate make audit"}
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                text = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise CannotAsk(f"{self.url + path} answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            raise CannotAsk(f"{self.url} cannot be reached: {why}") from error
        try:
            found = json.loads(text) if len(text) <= MOST_BYTES else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CannotAsk(f"{self.url + path} did not answer as OSV does: no JSON object")
        return found
