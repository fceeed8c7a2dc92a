"""Values that must stay secret (X4). `masked` hides them in all messages and logs.

A value is known from the moment on at which it is taken out of the environment to be used as a secret: whoever expands
one says so by `conceal`.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import sys
import threading
import traceback
import warnings
from types import TracebackType
from typing import Any
from urllib.parse import quote, quote_plus

SHOWN = "***"
#: A shorter one is in too many words that say something else.
_SHORTEST = 4
#: Letters of an address by their numbers, which some write in lower case.
_ESCAPE = re.compile("%[0-9A-F]{2}")
_KNOWN: set[str] = set()
_PATTERN: re.Pattern[str] | None = None


def conceal(*values: str) -> None:
    """From now on these are masked, as they are and as addresses, JSON and logins have them."""
    global _PATTERN
    added = {form for value in values for form in _forms(value) if len(value) >= _SHORTEST} - _KNOWN
    if not added:
        return
    if not _KNOWN:
        _log_masked()
        _hooks_masked()
    _KNOWN.update(added)
    # The longest first: one secret may be the beginning of another.
    _PATTERN = re.compile("|".join(re.escape(known) for known in sorted(_KNOWN, key=len, reverse=True)))


def masked(text: str) -> str:
    """The text without any value that was concealed."""
    return text if _PATTERN is None else _PATTERN.sub(SHOWN, text)


def masked_traceback(error: BaseException) -> str:
    """The stack trace of an error, and of what caused it."""
    return masked("".join(traceback.format_exception(error)))


def tells_secret(error: BaseException) -> bool:
    """Whether the stack trace of an error, or of what caused it, has a value that was concealed."""
    whole = "".join(traceback.format_exception(error))
    return masked(whole) != whole


def _forms(value: str) -> set[str]:
    plain = str(value)
    forms = {plain, plain.strip(), quote(plain, safe=""), quote(plain), quote_plus(plain)}
    raw = plain.encode(errors="surrogatepass")
    # As Python, JSON, SQL and HTML write texts, and as bytes.
    forms |= {repr(plain)[1:-1], ascii(plain)[1:-1], repr(raw)[2:-1], raw.hex(), json.dumps(plain)[1:-1]}
    forms |= {plain.replace("\\", "\\\\").replace('"', '\\"'), plain.replace("'", "''")}
    forms |= {html.escape(plain, quote=False), html.escape(plain), _numbered(plain)}
    forms |= {_ESCAPE.sub(lambda m: m[0].lower(), form) for form in forms}
    # In a login (user:password in base64) its bits begin at any of three places; a letter it shares with its neighbour
    # is left out.
    for lead in range(3):
        text = base64.b64encode(bytes(lead) + raw).decode()
        text = text[-(-lead * 8 // 6) : (lead + len(raw)) * 8 // 6]
        forms |= {text, text.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= _SHORTEST}


def _numbered(text: str) -> str:
    """HTML with the quotes as numbers in decimals, as templates write them."""
    return html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


def _log_masked() -> None:
    """Records of every logger of this process, other libraries' debugging included."""
    before = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        try:
            text = record.getMessage()
        except Exception:  # whatever the texts of its arguments raise
            # A mistake of the caller's, which logging itself reports, with the arguments.
            record.args = (masked(_shown(record.args)),)
            return record
        if (told := masked(text)) != text:
            record.msg, record.args = told, ()
        if record.exc_info and record.exc_info[1] is not None:
            # Handlers that find it there do not make it anew.
            record.exc_text = masked_traceback(record.exc_info[1]).rstrip("\n")
        return record

    logging.setLogRecordFactory(factory)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _hooks_masked() -> None:
    """Warnings, and what Python prints of errors that nobody takes, in whichever thread or destructor."""
    text_of_warning, in_main, in_thread = warnings.formatwarning, sys.excepthook, threading.excepthook
    in_destructor = sys.unraisablehook

    def warning(*args: Any, **kwargs: Any) -> str:
        return masked(text_of_warning(*args, **kwargs))

    def main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if tells_secret(error):
            sys.stderr.write(masked_traceback(error))
        else:
            in_main(kind, error, trace)

    def thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and tells_secret(args.exc_value):
            sys.stderr.write(masked_traceback(args.exc_value))
        else:
            in_thread(args)

    def destructor(args: Any) -> None:
        if args.exc_value is not None and tells_secret(args.exc_value):
            sys.stderr.write(masked_traceback(args.exc_value))
        else:
            in_destructor(args)

    warnings.formatwarning = warning
    sys.excepthook, threading.excepthook, sys.unraisablehook = main, thread, destructor
