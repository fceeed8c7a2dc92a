# ruff: noqa: E501
"""TG7xx to TG9xx: commands, test files and warnings."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "TG701": (
        (
            "The question about late rows names an object that has none: a view, or a relation "
            "without a watermark."
        ),
        "Name a source or table with a watermark.",
    ),
    "TG702": ("The file for `tidegate sql -f` does not exist, or is not text.", "Correct the path."),
    "TG703": (
        "Another program listens on the port, or the file with the token or the certificate can't be used.",
        "Stop the other program or choose another port; correct the file that the message names.",
    ),
    "TG704": (
        "The folder has files that would be overwritten, or it can't be written.",
        "Choose an empty folder or a new name.",
    ),
    "TG705": (
        "`tidegate show` reads stored rows without Spark. Its `--where` takes plain comparisons only; what is stored must have the columns that are defined; and of a table WITH TTL whose keys are in several partitions it needs all keys in memory.",
        "Ask with `tidegate sql`, which uses Spark; if the definition has changed, do what `tidegate status` says.",
    ),
    "TG706": (
        "`--interval` is given twice for all groups, or `--interval` or `--priority` is given twice for the same group: by the names of two of its members.",
        "Give one value for each group, and one interval for all other groups.",
    ),
    "TG707": (
        "The process of live mode or of `tidegate warm` that carried out a command has ended, or does not answer, after it had begun to show results.",
        "Run the same command again: what was committed is kept, and the command continues from there.",
    ),
    "TG708": (
        "`tidegate warm` can't make its socket in `.tidegate/workers`, so that no other command could use it. The folder belongs to another user, or its file system has no sockets.",
        "Do what the hint says.",
    ),
    "TG709": (
        "Live mode was asked to take up other definitions (`tidegate reload`, `--watch`, SIGHUP, or `ALTER SOURCE` in the shell). It changes in place what can be changed in place, and never replaces results. Nothing has changed: all groups continue with the earlier definitions.",
        "Do what the hint says, for example `tidegate apply`, or undo the change; then run `tidegate reload`.",
    ),
    "TG710": (
        "`tidegate reload`, or `ALTER` of what live mode runs, asks the processes that run live mode for this environment, in this project folder, on this machine. There is none, or it has not answered. The definition that an ALTER has stored stays.",
        "Start live mode, or look at its log. In a container, run the command inside it, or send SIGHUP to its process.",
    ),
    "TG711": (
        "The source has too few rows or no watermark, or the share or sample is out of its range.",
        "Do what the hint says.",
    ),
    "TG712": ("The folder or file for a plot can't be written.", "Choose another place."),
    "TG801": (
        "`tidegate test` and the record `include` name files or folders. This one does not exist, has no `.slt` file, is not text, or includes itself.",
        "Correct the path.",
    ),
    "TG802": (
        "A test file consists of records with an empty line between them, and of comments. A line is neither of these, or a part of a record is missing.",
        "Correct it; [testing](testing.md) has the format.",
    ),
    "TG803": (
        "The record belongs to other programs that use the same format.",
        "Use the records that [testing](testing.md) lists.",
    ),
    "TG804": (
        "The record is known, but a word after it has the wrong form: a regular expression with an open bracket, a duration without a unit, or a number that has other signs.",
        "Correct the word at the caret.",
    ),
    "TG805": (
        "After `control substitution on`, `$name` stands for the value of a variable. No `let` and no environment variable gives this one a value.",
        "Set it as [testing](testing.md) shows.",
    ),
    "TG901": (
        "Without EMIT ON WINDOW CLOSE, a view also shows open windows, whose rows can change. tidegate assumes that it was "
        "forgotten if a comment contains it, or if a view that reads this one has it. It also assumes this if every other view "
        "of windows either has it or has a comment above it that names EMIT, if there are at least two other views of windows, "
        "and if at least one of them has it, unless the comment directly above the view itself names EMIT.",
        "Write EMIT ON WINDOW CLOSE at the end of the statement; a deployed view is then "
        "rebuilt. If you want to see open windows, write a comment that names EMIT directly above "
        "the view.",
    ),
    "TG902": (
        "The folder or file in the option `path`, or the schema in the option `schema.location`, does not exist now. "
        "A pattern is checked up to its first wildcard; `s3://` is not checked.",
        "Create it, or correct the option: otherwise, a run of this source ends with TG503, or, for a schema, with TG611.",
    ),
    "TG903": (
        "Spark converts the text to DOUBLE to add it up, so sums are not exact.",
        "Declare the column with its real type, or CAST it in the query.",
    ),
    "TG904": (
        "A sink only adds rows. A view without EMIT ON WINDOW CLOSE also shows open windows; "
        "the sink does not deliver them before they are final.",
        "Write EMIT ON WINDOW CLOSE at the end of the view, so that both show the same rows.",
    ),
    "TG905": (
        "None of the given months has this day: for example the 30th of February, or the 31st of April.",
        "Correct the third or fourth field of `cron`.",
    ),
    "TG906": (
        "Every run reads the rows of this source, but nothing uses them.",
        "Create a view or sink that reads the source, or remove it.",
    ),
    "TG907": (
        "The text in `assets/` differs from the definition of the stored rows. `tidegate "
        "status` and `tidegate why` report this, too. A run changes a log in place if the definition asks for no more; "
        "otherwise it leaves the object, and the objects that read it, unchanged (TG506).",
        "For a view: `tidegate apply NAME`. For a source: undo the change, give the new definition another name, or DROP "
        "the source.",
    ),
    "TG908": (
        "In a text, a backslash begins an escape, as in Spark: `'\\n'` is a line break, and two backslashes are one. "
        "Before any other character the backslash is lost: `'\\d'` is only a d. In RisingWave and PostgreSQL it would be a "
        "backslash and a d.",
        "Write the text as `r'…'`, or each backslash twice.",
    ),
}
