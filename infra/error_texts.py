# ruff: noqa: E501
"""What docs/errors.md says beside the meaning of a code: why it comes, what to do, and how it is printed.

`TEXTS`: (why, what to do) for every code that no statement alone can raise; those that one can (TG1xx to TG4xx) are shown
with it. `PRINTED`: an example of the text, as a project with made-up names gets it; a test compares its words with those
in the source.
"""

from __future__ import annotations

TEXTS: dict[str, tuple[str, str]] = {
    "TG410": (
        (
            "Passwords, keys, tokens and logins inside addresses must not be written into a "
            "file: neither into SQL, nor into the YAML of environments, jobs and alerts."
        ),
        "Write `${NAME}`, and set the variable where tidegate runs.",
    ),
    "TG501": (
        "`tidegate.connect(spark=…)` was given a Spark session that was started without Iceberg's jar.",
        "Start it with the `spark.jars.packages` that the hint names, or leave `spark=` out: then tidegate starts Spark.",
    ),
    "TG502": (
        "Two processes wrote the same table: a retry while the first run was still alive, or "
        "a second scheduler. The commit of the second process is refused, so no row is "
        "stored twice.",
        (
            "Run again. If the error comes back, look for the second process: `tidegate status`, "
            "the lock in `.tidegate/locks`."
        ),
    ),
    "TG503": (
        (
            "The folder or file in the option `path` does not exist, or a `dataset:` has no "
            "script that creates it."
        ),
        "Create it, or correct the option. A relative path starts at the project's folder.",
    ),
    "TG504": (
        "A Parquet file has no column of the name that the source declares (in a CSV file such a column is NULL).",
        (
            "Correct the name in `CREATE SOURCE`, or the file. The hint names a similar column, "
            "or lists the columns of the file."
        ),
    ),
    "TG505": (
        "Something that was read before has changed: a file was written again, a recording "
        "was changed, or a source below an inline gate was recreated. Judged rows keep their "
        "outcome, so going on could lose rows or count them twice.",
        (
            "Do what the hint says: restore the file, give the new content a new name, or drop "
            "the source and read everything again."
        ),
    ),
    "TG506": (
        "The text in `assets/` differs from the definition that the stored rows were "
        "computed with, or a view that this one reads was rebuilt. Comments, line breaks and "
        "the case of keywords do not matter.",
        "For a view: `tidegate rebuild NAME`. For a source: undo the change, give the new definition another name, or DROP "
        "the source. [Changing a definition](changing.md) has every case.",
    ),
    "TG507": (
        (
            "tidegate understood the query, but Spark does not: types do not match, or a "
            "function has the wrong arguments."
        ),
        "The message is Spark's own. Usually a CAST is missing.",
    ),
    "TG508": (
        (
            "A log, view or sink has one writer at a time, and another process is writing it; "
            "the message names that process."
        ),
        (
            "Wait until that process has ended, or stop it. The lock is released when the "
            "process ends, also when it is killed."
        ),
    ),
    "TG509": (
        "The command works with other kinds of objects than the named one.",
        "The hint names the kinds. `tidegate check` lists all objects.",
    ),
    "TG511": (
        "Other objects still read the object that you want to drop.",
        "Drop the readers first, in the order that the hint gives.",
    ),
    "TG512": (
        "Nothing is stored yet, or the named object can't answer: a source without a "
        "watermark, or a view where only a source has such rows.",
        "Run it first (`tidegate run NAME`), or use the object that the hint names.",
    ),
    "TG513": (
        "A task of Spark failed: a file is not a Parquet file, an executor ran out of "
        "memory, or a disk is full. No row of the batch is committed. If a worker died, no "
        "single row of JSON, CSV, Avro or Protobuf was found that kills it, and a smaller "
        "batch from Kafka did not help.",
        (
            "Repair what the message names, and run again. `.tidegate/logs/spark.log` has "
            "everything that Spark reported."
        ),
    ),
    "TG514": (
        "The JVM does not start (no memory, a wrong `spark.conf`), the master does not answer, or the JVM was killed.",
        (
            "`tidegate doctor --deep` starts Spark and says what is missing. Everything that was "
            "committed is kept; run again."
        ),
    ),
    "TG515": (
        "The environment has `reads:`, so sources, tables and sinks belong to the environment that it reads.",
        "Run the command there: use `--env` with the name in the hint.",
    ),
    "TG516": (
        (
            "The environment `reads:` another one, which has no log of this source, or a log of "
            "another definition."
        ),
        "Run it there first, or try the change in an environment with a warehouse of its own.",
    ),
    "TG517": (
        "A file is like a file that was read under another name, and that is not there any more or holds other rows "
        "now: it was renamed, moved, compressed or decompressed. Its rows are in the log already, and would be counted "
        "twice. The message says what both files have in common; of a large file only its size, its beginning and its "
        "end are known.",
        (
            "Move it back, or out of the source's folder. If it contains other rows, do what the hint says: it will "
            "be read then. [Which file is it?](files.md#which-file-is-it) has every case."
        ),
    ),
    "TG531": (
        (
            "Every table records which project created it, and in which environment. Other "
            "projects and environments can only read it (X3)."
        ),
        "Write the table from the project and environment that own it, or take it over with "
        "`tidegate adopt NAME`. If both are one project in folders with different names, "
        "give it one name: `project:` in `resources/<env>.yaml`. For new tables, use a "
        "namespace of your own. [Owners](deployment.md#owners) has more.",
    ),
    "TG532": (
        "`tidegate adopt` takes tables away from their owner, and there was no person who could be asked.",
        "Read the list, make sure that nobody writes these tables any more, and agree: at the prompt, or with `--yes`.",
    ),
    "TG521": (
        "Resetting the watermark would leave some results unchanged, because they need rows "
        "that are no longer kept; or rows that TTL has removed would not come back (W9).",
        "Read the list that is printed, and agree: at the prompt, with `tidegate sql --yes`, or `session.execute(sql, "
        "yes=True)`.",
    ),
    "TG533": (
        "DROP removes the rows with their files, also the late and rejected rows, and for a "
        "source the position up to which it was read. Definitions in `assets/` are kept, and "
        "the next run begins again with the rows that the input still has.",
        "Read the list of what is removed, and agree: at the prompt, with `tidegate sql "
        "--yes`, or `session.execute(sql, yes=True)`. `tidegate test` and temporary projects "
        "do not ask.",
    ),
    "TG520": (
        (
            "ALTER was used on an object that a file in `assets/` defines; the file and the "
            "object would then differ."
        ),
        "Edit the file as the hint shows. The next run goes on with the same log.",
    ),
    "TG541": (
        (
            "The folder, table or topic has content that does not come from this sink, or "
            "another sink delivers there."
        ),
        "Give the sink a place of its own.",
    ),
    "TG542": (
        "The view or source that the sink reads was dropped or rebuilt. Its rows would be delivered a second time.",
        (
            "DROP the sink and CREATE it again: with a new place, to deliver everything, or with "
            "`snapshot = 'false'`, to deliver only new rows."
        ),
    ),
    "TG543": (
        "A new view would need rows that retention has removed, and its results are not "
        "known without them; or such rows were removed before a view, or a gate of "
        "`WATERMARK(…)`, had read them.",
        (
            "Views over windows of a fixed length, and sorted rows, can begin at the oldest rows "
            "that are kept; or keep rows longer in `jobs/maintenance.yaml`."
        ),
    ),
    "TG544": ("Upkeep was requested for an object that has never run.", "Run it first."),
    "TG545": (
        "The broker refused messages, or was unreachable for longer than the client waits.",
        (
            "You do not have to repair anything here: the next run reads which rows arrived, and "
            "delivers the rest. Check the broker."
        ),
    ),
    "TG518": (
        "Each jar that Spark loads for tidegate has a recorded SHA-256 "
        "(`tidegate/jvm/jars.sha256`), but this file has another one: the download was "
        "damaged, a mirror serves another file, or somebody changed it.",
        "Remove the file that the message names, and fetch it again from Maven Central. If "
        "the same file comes back, tell the operator of the mirror.",
    ),
    "TG550": (
        "No broker answers at the address, or it refuses the login.",
        (
            "Check that the broker runs, and check the address and the login. Live mode tries "
            "again by itself; no row is lost in the meantime."
        ),
    ),
    "TG551": (
        "The broker answers, but has no topic of this name.",
        "Create it, or correct the option `topic`.",
    ),
    "TG552": (
        "The topic's retention removed messages before they were read: the source was "
        "stopped for too long, or reads more slowly than messages arrive.",
        (
            "Restore the messages; or set `on_data_loss = 'record'`, which goes on after the gap "
            "and records it; or begin again."
        ),
    ),
    "TG553": (
        "The topic was deleted and created again, so the same offsets are other messages.",
        "Give the source another name, or DROP it to begin again.",
    ),
    "TG554": (
        "A Spark session of your own has no Kafka connector.",
        "Start it with the `spark.jars.packages` that the hint names.",
    ),
    "TG555": (
        "The schema registry does not answer, refuses the login, or answers with something other than a schema. Only HTTP and HTTPS are supported. A redirect to another host is followed without the login.",
        (
            "Check its address and login. No row of the batch was stored; run again. tidegate "
            "asks again for an id after 5 seconds if the registry did not answer, and after a "
            "minute if the registry does not have it."
        ),
    ),
    "TG556": (
        "Some registries give Protobuf schemas only as text.",
        "Add a file of descriptors, as the hint says.",
    ),
    "TG561": (
        "The view can't be replaced window by window without changing other results.",
        (
            "[Amendments](amendments.md#what-cant-be-amended) lists which views can be amended, "
            "and what to do with the others."
        ),
    ),
    "TG562": (
        "A part of the range is before the oldest rows that retention has kept.",
        "Begin at the time that the hint names, or keep rows longer in `jobs/maintenance.yaml`.",
    ),
    "TG563": ("The bounds of `--range` are not times of the view.", "Write them as the hint shows."),
    "TG564": (
        "The question needs a view over windows of one source, and a strategy that is a constant delay.",
        "Use such a view; `tidegate advise` compares all delays.",
    ),
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
        "A key is misspelt, or is in the wrong place.",
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
        "tidegate can't use the location of the warehouse, or it does not work with the catalog.",
        "Use a folder or `s3://`, and a catalog other than `hadoop` for object storage.",
    ),
    "TG608": (
        "Spark 4.1 needs Java 17 or newer.",
        "Install Java 17, and set JAVA_HOME to it. `tidegate doctor` checks it.",
    ),
    "TG609": (
        "A file in `jobs/` names an object that the project does not have, or a name is used twice.",
        "Correct the name; the hint shows a similar one.",
    ),
    "TG610": ("A file in `assets/` is not UTF-8.", "Save it as UTF-8."),
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
        "`--select` or `select:` is misspelt, or the selection is empty.",
        "`tidegate check --select …` lists what a selection contains.",
    ),
    "TG614": (
        "SQL belongs to the data team, but the machine does not. The operator of tidegate "
        "lists which variables `${NAME}` may name, which folders and addresses connectors "
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
        "Great Expectations is a dependency, but is not installed.",
        "Install the version that the hint names.",
    ),
    "TG620": (
        "A file of a table is damaged or missing, or the catalog does not answer.",
        (
            "Check the disk, the object store or the catalog. [Backup](backup.md) explains how "
            "to restore a table."
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
    "TG622": (
        (
            "A later release of tidegate has written the table. This release could misread it, "
            "so it reads and changes nothing."
        ),
        "Install the later release again. [Upgrade](upgrade.md) explains how to go back.",
    ),
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
    "TG711": (
        "The source has too few rows or no watermark, or the share or sample is out of its range.",
        "Do what the hint says.",
    ),
    "TG712": ("The folder or file for a plot can't be written.", "Choose another place."),
    "TG801": ("A `.slt` file or folder does not exist, or is not text.", "Correct the path."),
    "TG802": (
        "A line is neither a record nor a comment.",
        "Correct it; [testing](testing.md) has the format.",
    ),
    "TG803": (
        "The record belongs to other programs that use the same format.",
        "Use the records that [testing](testing.md) lists.",
    ),
    "TG804": ("A regular expression, duration or number can't be read.", "Correct the word at the caret."),
    "TG805": ("A `$variable` of a test file has no value.", "Set it as [testing](testing.md) shows."),
    "TG901": (
        "Without EMIT ON WINDOW CLOSE, a view also shows open windows, whose rows can change. tidegate assumes that it was "
        "forgotten if a comment contains it, if a view that reads this one has it, or if all other views of windows have it "
        "(at least two), unless the comment directly above the view names EMIT ON WINDOW CLOSE.",
        "Write EMIT ON WINDOW CLOSE at the end of the statement; a deployed view is then "
        "rebuilt. If you want to see open windows, write that into a comment directly above "
        "the view.",
    ),
    "TG902": (
        "The folder or file in the option `path` does not exist now. A pattern is checked up "
        "to its first wildcard; `s3://` is not checked.",
        "Create it, or correct the option: otherwise, a run of this source ends with TG503.",
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
        "status` and `tidegate why` report this, too. A run leaves the object, and the "
        "objects that read it, unchanged (TG506).",
        "For a view: `tidegate rebuild NAME`. For a source: undo the change, give the new definition another name, or DROP "
        "the source.",
    ),
}

PRINTED: dict[str, str] = {
    "TG623": """error TG623: /srv/shop/.tidegate/locks/orders.lock can't be used: the disk is full
hint: free some space there (tidegate upkeep, tidegate cleanup, a larger disk); what was committed is kept, and nothing is \
half done: when this is repaired, run the same command again""",
    "TG614": """error TG614: path: /srv/landing is not in a folder that SQL may reach
 --> assets/orders.sql:6:45
6 | ) WITH (connector = 'filesystem', path = '/srv/landing')
  |                                          ^^^^^^^^^^^^^^
hint: the operator of tidegate can allow it in resources/local.yaml, allow: {folders: ["/srv/landing"]}""",
    "TG518": """error TG518: /home/ada/.ivy2.5.2/jars/org.apache.kafka_kafka-clients-3.9.1.jar is not the jar that tidegate was \
built with: its SHA-256 is 2c1f…, not 7568…
hint: remove the file, find out who put it there, and fetch it again from Maven Central""",
    "TG503": """error TG503: source "orders" reads file:///home/ada/shop/data/orders, which does not exist
hint: check the option path, or create it""",
    "TG504": """error TG504: source "orders": the file 2026-03-01.parquet has no column "amount"
hint: did you mean "amounts"?""",
    "TG506": """error TG506: the definition of "orders_hourly" has changed since its results were computed
 --> assets/orders.sql:21:26
21 | CREATE MATERIALIZED VIEW orders_hourly AS
                              ^^^^^^^^^^^^^
hint: tidegate rebuild orders_hourly recomputes it alongside the old results, then swaps; or DROP it, or give the new \
definition another name""",
    "TG511": """error TG511: "orders" is read by orders_hourly
hint: DROP MATERIALIZED VIEW orders_hourly first""",
    "TG515": """error TG515: "orders" is only read in environment "dev": it belongs to "production"
hint: only views run here; run sources, tables and sinks with --env production""",
    "TG531": """error TG531: "orders" belongs to project "shop" in environment "production"; this is project "rival" in \
environment "local", and can only read it
hint: write it from that project and environment; or take it over with tidegate adopt orders; if both are one project, give \
it one name with project: shop in resources/local.yaml""",
    "TG532": """error TG532: these tables will belong to project "rival" in environment "local"; their former owner can only \
read them from then on:
  orders: project "shop" in environment "production"
hint: agree when you are asked, or with tidegate adopt --yes""",
    "TG533": """error TG533: these are removed with orders and can't be restored:
  orders: rows: 12 on time, 1 late, 1 rejected; 5 files, 0.1 MB
  these can't go on without it: orders_hourly
  the position up to which its input was read; rows that the input no longer has can't be read again
hint: agree when you are asked, or with tidegate sql --yes; in Python: session.execute(sql, yes=True)""",
    "TG542": """error TG542: "orders_hourly" is not the table that "to_accounting" has delivered from until now: it was recreated, or the definition of the sink has changed. Its rows would be delivered twice
hint: DROP SINK to_accounting and CREATE it again, with a new place or with snapshot = 'false'""",
    "TG551": """error TG551: source "clicks": there is no topic clicks at broker-1:9092
hint: create it, or check the options topic and properties.bootstrap.server""",
    "TG602": """error TG602: there is no environment "prod": resources/prod.yaml does not exist
hint: did you mean "production"?""",
    "TG606": """error TG606: environment variable KAFKA_PASSWORD is not set
hint: export KAFKA_PASSWORD=… before running tidegate, or remove the line""",
    "TG608": """error TG608: Java 11.0.2 at /usr/bin/java is too old: Spark 4.1 needs 17 or newer""",
    "TG622": """error TG622: "orders" has storage version 3, but this release of tidegate knows only versions 1 to 2: a later release \
has written it
hint: install that later release again; nothing was read or changed""",
}
