# ruff: noqa: E501
"""What docs/errors.md says beside the meaning of a code: why it comes, what to do, and how it is printed.

`TEXTS`: (why, what to do) for every code that no statement alone can raise; those that one can (TG1xx to TG4xx) are shown
with it. `PRINTED`: an example of the text, as a project with made-up names gets it; a test compares its words with those
in the source.
"""

from __future__ import annotations

TEXTS: dict[str, tuple[str, str]] = {
    "TG410": (
        "Passwords, keys, tokens and logins inside addresses stand in no file: not in SQL, nor in the YAML of environments, jobs and alerts.",
        "Write `${NAME}`, and set the variable where tidegate runs.",
    ),
    "TG501": (
        "A Spark session of your own was handed to `tidegate.connect(spark=…)`, and it was started without Iceberg's jar.",
        "Start it with the `spark.jars.packages` that the hint names, or leave `spark=` out: then tidegate starts Spark.",
    ),
    "TG502": (
        "Two processes wrote the same table: a retry beside a run that was thought dead, or a second scheduler. The commit "
        "of the second one is refused, so no row is there twice.",
        "Run again. If it comes back, look for the second process: `tidegate status`, the lock in `.tidegate/locks`.",
    ),
    "TG503": (
        "The folder or file in the option `path` does not exist, or a `dataset:` has no script that brings it.",
        "Create it, or correct the option. A relative path starts at the project's folder.",
    ),
    "TG504": (
        "A Parquet file has no column of the name that the source declares (in a CSV file such a column is NULL).",
        "Correct the name in `CREATE SOURCE`, or the file. The hint names a similar column, or the columns that there are.",
    ),
    "TG505": (
        "What was read before is not what is there now: a file was written anew, a recording changed, or a source was made "
        "anew below an inline gate. Rows that are judged stay judged, so going on could lose rows or count them twice.",
        "Do what the hint says: put the file back, give the new content a new name, or drop the source and read it anew.",
    ),
    "TG506": (
        "The text in `assets/` is not the definition that the stored rows were computed with, or a view below was rebuilt. "
        "Comments, line breaks and the case of keywords do not count.",
        "For a view: `tidegate rebuild NAME`. For a source: undo the change, give the new definition another name, or DROP "
        "the source. [Changing a definition](changing.md) has every case.",
    ),
    "TG507": (
        "tidegate understood the query, and Spark does not: types that do not fit, or a function with other arguments.",
        "The message is Spark's own. Usually a CAST is missing.",
    ),
    "TG508": (
        "A log, view or sink has one writer at a time, and another process has it; the message names it.",
        "Wait until it has ended, or stop it. The lock goes with its process, also if that is killed.",
    ),
    "TG509": (
        "The command is for other kinds of objects than the one that was named.",
        "The hint says which kinds it takes. `tidegate check` lists what there is.",
    ),
    "TG511": (
        "Something still reads what should be dropped.",
        "Drop the readers first, in the order that the hint gives.",
    ),
    "TG512": (
        "Nothing is stored yet that could be asked, or what is named can't answer: a source without a watermark, a view "
        "where only a source has such rows.",
        "Run it first (`tidegate run NAME`), or ask what the hint names.",
    ),
    "TG513": (
        "A task of Spark failed: a file that is no Parquet file, an executor that ran out of memory, a disk that is full. "
        "Nothing of the batch is committed. Where a worker has died, no row of JSON, CSV, Avro or Protobuf was found that "
        "kills it alone, and no smaller batch of Kafka's helped.",
        "Mend what the message names, and run again. `.tidegate/logs/spark.log` has all that Spark said.",
    ),
    "TG514": (
        "The JVM does not start (no memory, a wrong `spark.conf`), the master does not answer, or the JVM was killed.",
        "`tidegate doctor --deep` starts Spark and says what is missing. What was committed is there; run again.",
    ),
    "TG515": (
        "The environment has `reads:`, so sources, tables and sinks belong to the other one.",
        "Do it there: `--env` with the name that the hint gives.",
    ),
    "TG516": (
        "The environment `reads:` another one, and that has no log of this source, or one of another definition.",
        "Run it there first, or try the change in an environment with a warehouse of its own.",
    ),
    "TG517": (
        "A file has the content of one that was read under another name and is gone: it was moved or renamed. Its rows "
        "are in the log already, and would count twice.",
        "Move it back, or out of the source's folder. If these are other rows, write them into a file that differs.",
    ),
    "TG531": (
        "Every table says which project made it, and in which environment. Another one may read it, and that is all (X3).",
        "Do it where the table belongs, or take it over with `tidegate adopt NAME`. If both are one project, whose folders "
        "have different names, give it one name: `project:` in `resources/<env>.yaml`. For new tables take a namespace of "
        "your own. [Owners](deployment.md#owners) has more.",
    ),
    "TG532": (
        "`tidegate adopt` takes tables away from whoever owns them, and nobody was there to be asked.",
        "Read the list, make sure that nobody writes these tables any more, and agree: at the prompt, or with `--yes`.",
    ),
    "TG521": (
        "A reset of the watermark would leave results as they are that need rows which are not kept any more; or rows that TTL "
        "has cleaned would not come back (W9).",
        "Read the list that is printed, and agree: at the prompt, with `tidegate sql --yes`, or `session.execute(sql, "
        "yes=True)`.",
    ),
    "TG533": (
        "DROP removes rows with their files, late and rejected ones too, and for a source where it was read to. Definitions in "
        "`assets/` stay, and the next run starts anew from what the input still holds.",
        "Read what goes, and agree: at the prompt, with `tidegate sql --yes`, or `session.execute(sql, yes=True)`. In "
        "`tidegate test` and temporary projects nobody is asked.",
    ),
    "TG520": (
        "ALTER was given for something that a file in `assets/` defines; the file would say something else from then on.",
        "Edit the file as the hint shows. The next run goes on with the same log.",
    ),
    "TG541": (
        "The folder, table or topic is not empty and its content is not this sink's, or another sink delivers there.",
        "Give the sink a place of its own.",
    ),
    "TG542": (
        "The view or source that the sink reads was dropped or rebuilt. Its rows would be delivered a second time.",
        "DROP the sink and CREATE it again: into a new place for everything, or with `snapshot = 'false'` for what comes.",
    ),
    "TG543": (
        "A new view would need rows that retention has removed, and without them nobody knows its results; or such rows went "
        "before a view, or a gate of `WATERMARK(…)`, had read them.",
        "Windows of a fixed length and sorted rows can begin at the edge; or keep rows longer in `jobs/maintenance.yaml`.",
    ),
    "TG544": ("Upkeep was asked for something that has never run.", "Run it first."),
    "TG545": (
        "The broker refused messages, or was away for longer than the client waits.",
        "Nothing to mend here: the next run reads what arrived, and delivers the rest. Look after the broker.",
    ),
    "TG518": (
        "Each jar that Spark loads for tidegate has a recorded SHA-256 (`tidegate/engine/jars.sha256`), and this file has "
        "another: a broken download, a mirror that serves something else, or somebody changed it.",
        "Remove the file that the message names, and fetch it again from Maven Central. If it comes back the same, tell whoever "
        "runs the mirror.",
    ),
    "TG550": (
        "No broker answers at the address, or it refuses the login.",
        "Check that it runs, the address and the login. Live mode tries again by itself; nothing is lost meanwhile.",
    ),
    "TG551": (
        "The broker answers, and has no topic of this name.",
        "Create it, or correct the option `topic`.",
    ),
    "TG552": (
        "The topic's retention removed messages before they were read: the source was stopped for too long, or reads more "
        "slowly than messages come.",
        "Restore them; or set `on_data_loss = 'record'`, which goes on behind the gap and keeps it on record; or begin anew.",
    ),
    "TG553": (
        "The topic was deleted and made again, so the same offsets are other messages.",
        "Give the source another name, or DROP it to begin anew.",
    ),
    "TG554": (
        "A Spark session of your own has no Kafka connector.",
        "Start it with the `spark.jars.packages` that the hint names.",
    ),
    "TG555": (
        "The schema registry does not answer, refuses the login, or answers with what is no schema. Only HTTP and HTTPS are spoken. A redirect to another host is followed without the login.",
        "Check its address and login. No row of the batch was kept; run again. An id that the registry did not answer for is asked for again after 5 seconds, one that it does not have after a minute.",
    ),
    "TG556": (
        "Some registries give Protobuf schemas as text only.",
        "Add a file of descriptors, as the hint says.",
    ),
    "TG561": (
        "The view can't be replaced window by window without changing results that nobody asked to change.",
        "[Amendments](amendments.md#what-cant-be-amended) lists which views can be, and what to do with the others.",
    ),
    "TG562": (
        "A part of the range lies below what retention has kept.",
        "Begin at the time that the hint names, or keep rows longer in `jobs/maintenance.yaml`.",
    ),
    "TG563": ("The bounds of `--range` are no times of the view.", "Write them as the hint shows."),
    "TG564": (
        "The question needs a view over windows of one source, and a strategy that is a constant delay.",
        "Ask such a view; `tidegate advise` looks at all delays.",
    ),
    "TG601": (
        "There is neither an `assets` nor a `resources` folder here.",
        "Change to the project's folder, give `--project DIR`, or make one with `tidegate init`.",
    ),
    "TG602": (
        "`--env` or `TIDEGATE_ENV` names an environment without a file in `resources/`.",
        "Correct the name, or write the file.",
    ),
    "TG603": (
        "The file is no YAML, or not of the form that is expected at the place.",
        "Mend the line at the caret.",
    ),
    "TG604": (
        "A key is misspelt, or stands where it does not belong.",
        "Take the key that the hint suggests.",
    ),
    "TG605": (
        "A value is missing, of another type, or out of its range.",
        "Write a value as the message describes it.",
    ),
    "TG606": (
        "A file says `${NAME}`, and the environment in which tidegate runs has no such variable.",
        "Export it where tidegate runs: in the shell, in Dagster's deployment, in the container.",
    ),
    "TG607": (
        "The warehouse is at a place that tidegate can't use, or that does not go with the catalog.",
        "Use a folder or `s3://`, and a catalog other than `hadoop` for object storage.",
    ),
    "TG608": (
        "Spark 4.1 needs Java 17 or newer.",
        "Install Java 17, and set JAVA_HOME to it. `tidegate doctor` checks it.",
    ),
    "TG609": (
        "A file in `jobs/` names something that the project does not have, or a name is taken twice.",
        "Correct the name; the hint has a similar one.",
    ),
    "TG610": ("A file in `assets/` is not UTF-8.", "Save it as UTF-8."),
    "TG611": (
        "The schema file of messages is not there or can't be read, or its fields are not the columns of the source.",
        "Correct `schema.location`, or the columns.",
    ),
    "TG612": (
        "The front matter names what the statement below it does not have.",
        "Correct the key at the caret.",
    ),
    "TG613": (
        "`--select` or `select:` is misspelt, or nothing is left of it.",
        "`tidegate check --select …` lists what a selection means.",
    ),
    "TG614": (
        "SQL is the data team's, the machine is not: what `${NAME}` may stand for, which folders and addresses connectors may "
        "reach, which classes Kafka's client may load, and whether `assets/*.py` is run, is listed by whoever operates tidegate.",
        "Add what the hint names under `allow:` of the environment's file, if it is meant to be reached; a list that is there is "
        "the whole list. Without one, SQL reaches the project's folder and loopback. `assets/`, `jobs/`, `quality/`, `resources/` "
        "and `.tidegate/` are no places for data. [Security](security.md#what-sql-may-reach) has all keys.",
    ),
    "TG617": (
        "A file in `quality/` names an asset, expectation, parameter or column that is not there.",
        "Correct the word at the caret; the hint has a similar one.",
    ),
    "TG618": (
        "Great Expectations is a dependency, and is not installed here.",
        "Install the version that the hint names.",
    ),
    "TG620": (
        "A file of a table is damaged or missing, or the catalog does not answer.",
        "Check the disk, the object store or the catalog. [Backup](backup.md) says how a table is restored.",
    ),
    "TG621": (
        "`tidegate status` and `why` ask brokers without a JVM, and could not.",
        "Check the address, the login and the topic. Some settings only Java's client has; the hint says what to use.",
    ),
    "TG623": (
        "The warehouse, the project's `.tidegate`, or the folder for temporary files can't be written: it is full, mounted "
        "read-only, or belongs to another user. Commits are whole or not there at all, so nothing is half done. Temporary files "
        "go where `TMPDIR` says, else to the machine's own folder for them; Spark on this machine spills there, too, unless "
        "`spark.local.dir` in `spark.conf` names other folders. Whether there is room for a beginning is seen before Spark starts.",
        "Do what the hint says for the place that the message names, and run the same command again. Live mode tries again by itself.",
    ),
    "TG622": (
        "A later release of tidegate has written the table. This one could misread it, so it reads and changes nothing.",
        "Install the later release again. [Upgrade](upgrade.md) says how to go back.",
    ),
    "TG701": (
        "Late rows were asked of something that has none: a view, or a relation without a watermark.",
        "Name a source or table with a watermark.",
    ),
    "TG702": ("The file for `tidegate sql -f` is not there, or is not text.", "Correct the path."),
    "TG703": (
        "Another program listens on the port, or the file of the token or of the certificate can't be used.",
        "Stop the other program or give another port; correct the file that the message names.",
    ),
    "TG704": (
        "The folder has files that would be overwritten, or can't be written.",
        "Give an empty folder or a new name.",
    ),
    "TG711": (
        "The source has too few rows, no watermark, or the share or sample is out of its range.",
        "Do what the hint says.",
    ),
    "TG712": ("The folder or file for a plot can't be written.", "Give another place."),
    "TG801": ("A `.slt` file or folder is not there, or is not text.", "Correct the path."),
    "TG802": (
        "A line is neither a record nor a comment.",
        "Correct it; [testing](testing.md) has the format.",
    ),
    "TG803": (
        "The record is one of other programs that use the same format.",
        "Write it with the records that [testing](testing.md) has.",
    ),
    "TG804": ("A regular expression, duration or number can't be read.", "Correct the word at the caret."),
    "TG805": ("A `$variable` of a test file has no value.", "Set it as [testing](testing.md) shows."),
    "TG901": (
        "Without EMIT ON WINDOW CLOSE a view also shows windows that are still open, and changes them. It is taken for "
        "forgotten where it stands in a comment, where a view that reads this one has it, and where all other views of "
        "windows have it (two at least), unless the comment right above the view names EMIT ON WINDOW CLOSE.",
        "Write EMIT ON WINDOW CLOSE at the end of the statement; a view that is deployed is then rebuilt. If open "
        "windows are what you want, say so in a comment right above the view.",
    ),
    "TG902": (
        "The folder or file in the option `path` is not there now. A pattern is looked at up to its first wildcard; "
        "`s3://` is not looked at.",
        "Create it, or correct the option: a run of this source ends with TG503.",
    ),
    "TG903": (
        "Spark reads text as DOUBLE to add it up, so sums are not exact.",
        "Declare the column with the type that it has, or CAST it in the query.",
    ),
    "TG904": (
        "A sink only ever adds rows. A view without EMIT ON WINDOW CLOSE also shows open windows; the sink does not deliver "
        "these before they are final.",
        "Write EMIT ON WINDOW CLOSE at the end of the view, so that both show the same rows.",
    ),
    "TG905": (
        "The day of the month is in none of the months: the 30th of February, the 31st of April.",
        "Correct the third or fourth field of `cron`.",
    ),
    "TG906": (
        "Every run takes the rows of this source in, and nothing uses them.",
        "Create a view or sink that reads it, or remove it.",
    ),
    "TG907": (
        "The text in `assets/` is not the definition that the stored rows are of. `tidegate status` and `tidegate why` say "
        "it, too. A run leaves the object, and what reads it, as they are (TG506).",
        "For a view: `tidegate rebuild NAME`. For a source: undo the change, give the new definition another name, or DROP "
        "the source.",
    ),
}

PRINTED: dict[str, str] = {
    "TG623": """error TG623: /srv/shop/.tidegate/locks/orders.lock can't be used: the disk is full
hint: make room there (tidegate upkeep, tidegate cleanup, a larger disk); what was committed stays, and nothing is half done: \
the same command goes on when it is mended""",
    "TG614": """error TG614: path: /srv/landing is not in a folder that SQL may reach
 --> assets/orders.sql:6:45
6 | ) WITH (connector = 'filesystem', path = '/srv/landing')
  |                                          ^^^^^^^^^^^^^^
hint: whoever operates tidegate allows it in resources/local.yaml, allow: {folders: ["/srv/landing"]}""",
    "TG518": """error TG518: /home/ada/.ivy2.5.2/jars/org.apache.kafka_kafka-clients-3.9.1.jar is not the jar that tidegate was \
made with: its SHA-256 is 2c1f…, not 7568…
hint: remove the file, find out who put it there, and fetch it again from Maven Central""",
    "TG503": """error TG503: source "orders" reads file:///home/ada/shop/data/orders, which does not exist
hint: check the option path, or create it""",
    "TG504": """error TG504: source "orders": the file 2026-03-01.parquet has no column "amount"
hint: did you mean "amounts"?""",
    "TG506": """error TG506: the definition of "orders_hourly" has changed since its results were computed
 --> assets/orders.sql:21:26
21 | CREATE MATERIALIZED VIEW orders_hourly AS
                              ^^^^^^^^^^^^^
hint: tidegate rebuild orders_hourly computes it anew beside what is there, and swaps; or DROP it, or give the new \
definition another name""",
    "TG511": """error TG511: "orders" is read by orders_hourly
hint: DROP MATERIALIZED VIEW orders_hourly first""",
    "TG515": """error TG515: "orders" is only read in environment "dev": it belongs to "production"
hint: views run here; sources, tables and sinks with --env production""",
    "TG531": """error TG531: "orders" belongs to project "shop" in environment "production"; this is project "rival" in \
environment "local", and can only read it
hint: write it there; or tidegate adopt orders makes it this project's; if both are one project, say so: project: shop in \
resources/local.yaml""",
    "TG532": """error TG532: these tables become those of project "rival" in environment "local"; whoever owned them can only read \
them from then on:
  orders: project "shop" in environment "production"
hint: agree when you are asked, or with tidegate adopt --yes""",
    "TG533": """error TG533: this goes with orders and can't be brought back:
  orders: rows: 12 on time, 1 late, 1 rejected; 5 files, 0.1 MB
  without it can't go on: orders_hourly
  where its input was read to; what the input does not hold any more can't be read again
hint: agree when you are asked, or with tidegate sql --yes; in Python: session.execute(sql, yes=True)""",
    "TG542": """error TG542: "orders_hourly" was made anew since "to_accounting" delivered from it: its rows would come twice
hint: DROP SINK to_accounting and CREATE it again, into a new place or with snapshot = 'false'""",
    "TG551": """error TG551: source "clicks": there is no topic clicks at broker-1:9092
hint: create it, or check the options topic and properties.bootstrap.server""",
    "TG602": """error TG602: no environment "prod": there is no resources/prod.yaml
hint: did you mean "production"?""",
    "TG606": """error TG606: environment variable KAFKA_PASSWORD is not set
hint: export KAFKA_PASSWORD=… before running tidegate, or remove the line""",
    "TG608": """error TG608: Java 11.0.2 at /usr/bin/java is too old: Spark 4.1 needs 17 or newer""",
    "TG622": """error TG622: "orders" has storage version 3, and this release of tidegate knows versions 1 to 2: a later release \
has written it
hint: install that release again; nothing was read or changed""",
}
