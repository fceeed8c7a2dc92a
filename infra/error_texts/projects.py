# ruff: noqa: E501
"""TG6xx: projects, environments and stored tables."""

from __future__ import annotations

PROJECTS: dict[str, tuple[str, str]] = {
    "TG601": (
        "The folder has neither an `assets` nor a `resources` folder.",
        "Change to the project's folder, give `--project DIR`, or create a project with `tidegate init`.",
    ),
    "TG602": (
        "`--env` or `TIDEGATE_ENV` names an environment without a file in `resources/`.",
        "Correct the name, or write the file.",
    ),
    "TG603": (
        "The file is not YAML, or does not have the expected structure.",
        "Correct the line at the caret.",
    ),
    "TG604": (
        "A key is misspelt, or is in the wrong place. An unknown key is refused, because it would otherwise have no effect.",
        "Use the key that the hint suggests.",
    ),
    "TG605": (
        "A value is missing, has the wrong type, or is out of its range.",
        "Write a value as the message describes it.",
    ),
    "TG606": (
        "A file contains `${NAME}`, but the environment in which tidegate runs has no such variable.",
        "Export it where tidegate runs: in the shell, in Dagster's deployment, in the container.",
    ),
    "TG607": (
        "tidegate can't use the location of the warehouse, or it does not work with the catalog, or the catalog does not commit atomically for all who use it. Or the folder for `tidegate backup` is in use, or has something that is not an earlier copy of the same tables.",
        "Use a folder or `s3://`, and a catalog other than `hadoop` for object storage. [Catalogs](deployment.md#catalogs) lists what each of them does. For a copy, name a new or empty folder elsewhere ([backup](backup.md)).",
    ),
    "TG608": (
        "Spark 4.1 needs Java 17 or newer. tidegate starts Spark with the Java in JAVA_HOME, or else with the first one on PATH.",
        "Install Java 17, and set JAVA_HOME to it. `tidegate doctor` checks it.",
    ),
    "TG609": (
        "A file in `jobs/` names an object that the project does not have, or a name is used twice. The same is true of `intervals:` or `priorities:` of a live run that name two members of one group, and of two live runs that select members of the same group. `tidegate live` and `tidegate reload` check the live runs, too.",
        "Correct the name; the hint shows a similar one.",
    ),
    "TG610": (
        "All files of a project are read as UTF-8, on every machine. An editor has saved this file in another encoding, and the message names the first byte that does not fit.",
        "Save it as UTF-8.",
    ),
    "TG611": (
        (
            "The schema file of messages does not exist or can't be read, or its fields do not "
            "match the columns of the source."
        ),
        "Correct `schema.location`, or the columns.",
    ),
    "TG612": (
        "The front matter names something that the statement below it does not have.",
        "Correct the key at the caret.",
    ),
    "TG613": (
        "`--select` or `select:` is misspelt, or the selection is empty. A command that works on nothing would look like a success.",
        "`tidegate check --select …` lists what a selection contains.",
    ),
    "TG614": (
        "SQL belongs to the data team, but the machine does not. The operator of tidegate "
        "lists which variables `${NAME}` may name (in SQL, front matter, `jobs/` and `quality/`, and in the targets of alerts), which folders and addresses connectors "
        "may use, which classes Kafka's client may load, and whether `assets/*.py` is run.",
        "If SQL may use it, add what the hint names under `allow:` in the environment's "
        "file; a list there replaces the default. Without a list, SQL can use the project's "
        "folder and loopback addresses. `assets/`, `jobs/`, `quality/`, `resources/` and "
        "`.tidegate/` must not be used for data. [Security](security.md#what-sql-may-reach) "
        "has all keys.",
    ),
    "TG617": (
        "A file in `quality/` names an asset, expectation, parameter or column that does not exist.",
        "Correct the word at the caret; the hint shows a similar one.",
    ),
    "TG618": (
        "The expectations in `quality/` are checked by the library Great Expectations. It is a dependency of tidegate, but this Python environment does not have it.",
        "Install the version that the hint names.",
    ),
    "TG625": (
        "Reading SQL relies on the library sqlglot. Another package, sqlglotc, replaces it by a compiled build, whose classes Python classes can't inherit from. Another tool in the same Python environment has installed it.",
        "Remove sqlglotc: sqlglot works without it. Install the tool that needs it in an environment of its own.",
    ),
    "TG620": (
        (
            "A file of a table is damaged or missing, the catalog does not answer, or only some environments and "
            "checkouts of a project name the file of SQLite to which its tables were moved."
        ),
        (
            "Check the disk, the object store or the catalog. [Backup](backup.md) explains how to restore a "
            "table, and `tidegate catalog migrate` moves the tables of a folder. Where the hint shows a line with the "
            "new catalog, write it into the environment's file."
        ),
    ),
    "TG621": (
        (
            "`tidegate status` and `tidegate why` ask brokers without a JVM, and the broker gave "
            "no usable answer."
        ),
        (
            "Check the address, the login and the topic. Some settings exist only in Java's "
            "client; the hint says what to use instead."
        ),
    ),
    "TG622": (
        (
            "A later release of tidegate has written the table. This release could misread it, "
            "so it reads and changes nothing."
        ),
        "Install the later release again. [Upgrade](upgrade.md) explains how to go back.",
    ),
    "TG623": (
        "The warehouse, the project's `.tidegate`, or the folder for temporary files can't "
        "be written: it is full, mounted read-only, or belongs to another user. Each commit "
        "is stored completely or not at all, so nothing is half done. Temporary files are "
        "written to `TMPDIR`, or else to the default folder of the machine; Spark on this "
        "machine writes there, too, unless `spark.local.dir` in `spark.conf` names other "
        "folders. tidegate checks for free space before it starts Spark.",
        (
            "Do what the hint says for the location in the message, and run the same command "
            "again. Live mode tries again by itself."
        ),
    ),
    "TG624": (
        "The S3 server is not found, does not answer, answers with an error after all repetitions, has no such bucket or "
        "has it in another region, or refuses the credentials: temporary ones have expired, or they do not permit the "
        "request. A commit is stored completely or not at all, a file that could not be written to its end is not there, and a truncated answer is never taken "
        "for a whole file.",
        (
            "Do what the hint says, and run the same command again: it continues after the last commit. Live mode "
            "tries again by itself. [Running on a cluster](cluster.md#object-storage) explains how temporary "
            "credentials are renewed."
        ),
    ),
}
