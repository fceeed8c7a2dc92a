# ruff: noqa: E501
"""TG5xx: running."""

from __future__ import annotations

RUNNING: dict[str, tuple[str, str]] = {
    "TG501": (
        "`tidegate.connect(spark=…)` was given a Spark session that was started without Iceberg's jar.",
        "Start it with the `spark.jars.packages` that the hint names, or leave `spark=` out: then tidegate starts Spark.",
    ),
    "TG502": (
        "Two processes wrote the same table: a retry while the first run was still alive, or "
        "a second scheduler. The commit of the second process is refused, so no row is "
        "stored twice. Or a catalog still returns the state of a table from before a column "
        "was added; the message says so.",
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
        "computed with, or a view that this one reads was rebuilt, or another process changed the definition after this "
        "one had read it. Comments, line breaks and "
        "the case of keywords do not matter.",
        "For a view: `tidegate apply NAME`. For a source: do what the message says if its log can be changed in place; "
        "or undo the change, give the new definition another name, or DROP the source. After a change by another process, "
        "open a new session. [Changing a definition](changing.md) has every case.",
    ),
    "TG507": (
        (
            "tidegate understood the query, but Spark does not: types do not match, or a "
            "function has the wrong arguments. Or a column of the result has a type that a table can't store."
        ),
        "Where Spark refuses the query, the message is Spark's own. Usually a CAST is missing.",
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
        "Other objects still read the object that you want to drop, or the column that you want to change. They could not "
        "continue without it.",
        "Drop or change the readers first, in the order that the hint gives.",
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
            "be read then. [How files are identified](files.md#how-files-are-identified) lists all cases."
        ),
    ),
    "TG518": (
        "Each jar that Spark loads for tidegate has a recorded SHA-256 "
        "(`tidegate/jvm/jars.sha256`), but this file has another one: the download was "
        "damaged, a mirror serves another file, or the file was changed.",
        "Remove the file that the message names, and fetch it again from Maven Central. If "
        "the same file comes back, tell the operator of the mirror.",
    ),
    "TG519": (
        (
            "The work for a source or view of a group of live mode, or for a sink in a tick, took longer than "
            "`--hangs-after` (5 minutes), and in the second half of this time no Spark task of the group ended. It was "
            "broken off together with its process, the group got a process of its own, and the work is tried again "
            "there ([work that hangs](live.md#work-that-hangs))."
        ),
        (
            "Look for an expression that takes very long for some values, above all regular expressions with nested "
            "repetitions such as `(.*a){25}b`. Change the query, and run [`tidegate apply "
            "NAME`](changing.md#applying-a-plan), which computes the results of the new one, and then `tidegate "
            "reload`, so that live mode does not wait until its next try. If the work is right and only takes long, "
            "give it more time with `--hangs-after`."
        ),
    ),
    "TG520": (
        (
            "ALTER was used on an object that a file in `assets/` defines; the file and the "
            "object would then differ."
        ),
        "Edit the file as the hint shows. The next run continues with the same log.",
    ),
    "TG521": (
        "Resetting the watermark would leave some results unchanged, because they need rows "
        "that are no longer kept; or rows that TTL has removed would not come back (W9).",
        "Read the list that is printed, and agree: at the prompt, with `tidegate sql --yes`, or `session.execute(sql, "
        "yes=True)`.",
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
        "Read the list, make sure that no process writes these tables any more, and agree: at the prompt, or with `--yes`.",
    ),
    "TG533": (
        "DROP removes the rows with their files, also the late and rejected rows, and for a "
        "source the position up to which it was read. Definitions in `assets/` are kept, and "
        "the next run begins again with the rows that the input still has.",
        "Read the list of what is removed, and agree: at the prompt, with `tidegate sql "
        "--yes`, or `session.execute(sql, yes=True)`. `tidegate test` and temporary projects "
        "do not ask.",
    ),
    "TG534": (
        "`tidegate apply` changes nothing as long as a part of the plan can be done neither in place nor by recomputing a "
        "view. `tidegate apply --at` changes no view whose current version has passed the time, or can't stop there.",
        "Undo the refused change, or do what the hint says. `tidegate apply NAME` applies the other parts. [Changing a "
        "definition](changing.md) has every case.",
    ),
    "TG535": (
        "`tidegate apply` would replace results, and there was no person who could be asked.",
        "Read the list, and agree: at the prompt, or with `--yes`. The earlier results can still be read under the tag "
        "that is printed.",
    ),
    "TG536": (
        "`tidegate promote` takes the results of a branch only if they are what the environment that it reads would "
        "compute: of the same definition, of a snapshot of the log that still exists, and, if it reads views, of the "
        "same results of these.",
        "`tidegate apply NAME` in the environment that is read computes the results there. Or run the branch again, and "
        "promote then. [A branch on production's rows](deployment.md#a-branch-on-productions-rows) lists what can be "
        "promoted.",
    ),
    "TG541": (
        (
            "The folder, table or topic has content that does not come from this sink, or "
            "another sink delivers there."
        ),
        "Give the sink a place of its own.",
    ),
    "TG542": (
        "The view or source that the sink reads was dropped and created again, or it has a new version, and the sink "
        "does not say what it delivers then, or cannot do so. Or the sink has delivered a commit that the view or source does "
        "not have, for example because the tables were restored from a backup, and the folder of the sink was not. Rows "
        "would be delivered a second time, or be missing.",
        (
            "After a restore, restore the folder of the sink from the same [backup](backup.md). "
            "If the view has a new version, write `on_change = 'from_frontier'` or `'replay'`. Otherwise DROP the sink "
            "and CREATE it again: with a new place, to deliver everything, or with `snapshot = 'false'`, to deliver "
            "only new rows. Before an [erasure](erasure.md), run a sink that has not gone over to the current version of "
            "its view yet."
        ),
    ),
    "TG543": (
        "A new view would need rows that retention has removed, and its results are not "
        "known without them; or such rows were removed before a view, or a gate of "
        "`WATERMARK(…)`, had read them; or a new version of a view cannot keep the earlier results of such rows.",
        (
            "Views over windows of a fixed length, and sorted rows, can begin at the oldest rows "
            "that are kept; or keep rows longer in `jobs/maintenance.yaml`. A column of a new version that has another "
            "type needs another name; or DROP the view and run, which begins at the oldest rows without earlier results."
        ),
    ),
    "TG544": (
        "Upkeep works on the tables in which rows are stored. An object has its first table after its first run.",
        "Run it first.",
    ),
    "TG545": (
        "The broker refused messages, or was unreachable for longer than the client waits.",
        (
            "You do not have to repair anything here: the next run reads which rows arrived, and "
            "delivers the rest. Check the broker."
        ),
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
            "Restore the messages; or set `on_data_loss = 'record'`, which continues after the gap "
            "and records it; or begin again."
        ),
    ),
    "TG553": (
        "The position of a source is an offset in the topic. In a topic that was created again, or that servers of another cluster have, the same offsets belong to other messages, so some rows would be skipped.",
        "Give the source another name, or DROP it to begin again.",
    ),
    "TG554": (
        "`tidegate.connect(spark=…)` was given a Spark session that was started without the jars with which Spark reads Kafka.",
        "Start it with the `spark.jars.packages` that the hint names.",
    ),
    "TG555": (
        "The schema registry does not answer, refuses the login, or answers with something other than a schema. Only HTTP and HTTPS are supported. Or its address, which may come out of a variable, has a login in it. A redirect is followed to addresses that the environment lists ([TG614](#tg614)), and without the login to another host.",
        (
            "Check its address and login. No row of the batch was stored; run again. tidegate "
            "asks again for an id after 5 seconds if the registry did not answer, and after a "
            "minute if the registry does not have it. A login belongs into `schema.registry.username` and "
            "`schema.registry.password`."
        ),
    ),
    "TG556": (
        "To read a message, tidegate needs the descriptor that the compiler of Protobuf writes. Some registries give only the text of the schema.",
        "Add a file of descriptors, as the hint says.",
    ),
    "TG571": (
        "`tidegate erase` erases rows everywhere or nowhere. It found a table, sink or name that may have the rows, or "
        "values of them, and that it cannot change.",
        "The message lists every such place. [Erasing a person's rows](erasure.md) says for each of them what to do. Then "
        "run the command again. If it says that an erasure is not finished, rows that the named views need went beyond "
        "their retention after it was interrupted: DROP these views, and use `--resume`.",
    ),
    "TG572": (
        "`tidegate erase` removes rows and all earlier snapshots, which can't be restored, and there was no person who "
        "could be asked.",
        "Read the list, and agree: at the prompt, or with `--yes`. `--dry-run` shows the numbers of rows.",
    ),
    "TG573": (
        "An erasure of rows of the same source was interrupted, and was not finished since then. Its rows may still be "
        "in earlier snapshots. Or `tidegate backup` was started while an erasure is under way, or is not finished: a "
        "copy could have the rows, without the record that they have to be erased.",
        "Finish it with `tidegate erase SOURCE --resume`, and then run the command again.",
    ),
    "TG561": (
        "The view can't be replaced window by window without changing other results.",
        (
            "[Amendments](amendments.md#what-cannot-be-amended) lists which views can be amended, "
            "and what to do with the others."
        ),
    ),
    "TG562": (
        "A part of the range is before the oldest rows that retention has kept.",
        "Begin at the time that the hint names, or keep rows longer in `jobs/maintenance.yaml`.",
    ),
    "TG563": (
        "The bounds of `--range` are compared with the ends of windows, so they are written as the view shows its times: a timestamp, a date or a whole number.",
        "Write them as the hint shows.",
    ),
    "TG564": (
        "The question needs a view over windows of one source, and a strategy that is a constant delay.",
        "Use such a view; `tidegate advise` compares all delays.",
    ),
}
