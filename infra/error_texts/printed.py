# ruff: noqa: E501
"""How errors are printed that neither a statement alone nor a command without Spark can raise."""

from __future__ import annotations

PRINTED: dict[str, str] = {
    "TG501": """error TG501: this Spark session has no Iceberg runtime
hint: start it with spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0, or let tidegate.connect() start Spark""",
    "TG502": """error TG502: another run has committed to tidegate.main.orders in the meantime; this batch was not stored
hint: run again: it continues from the commit of the other run""",
    "TG503": """error TG503: source "orders" reads file:///home/ada/shop/data/orders, which does not exist
hint: check the option path, or create it""",
    "TG504": """error TG504: source "orders": the file 2026-03-01.parquet has no column "amount"
hint: did you mean "amounts"?""",
    "TG505": """error TG505: source "orders": berlin/2026-03-01.json had 749 bytes when it was read, but has 856 now
 --> assets/orders.sql:3:15
3 | CREATE SOURCE orders (
                  ^^^^^^
hint: a file is read only once, and all other files are read. There are three ways to continue: restore the file as it was, with its time; or remove it, and write its new rows into a file with another name (rename it into place); or DROP SOURCE orders and run again, which reads all files again""",
    "TG506": """error TG506: the definition of "orders_hourly" has changed since its results were computed
 --> assets/orders.sql:21:26
21 | CREATE MATERIALIZED VIEW orders_hourly AS
                              ^^^^^^^^^^^^^
hint: tidegate apply orders_hourly builds a new version beside the current one, and swaps it in; or DROP it, or give the new definition another name""",
    "TG507": """error TG507: column "s" of "v" has the type void, which a table can't store
 --> <sql>:1:26
1 | CREATE MATERIALIZED VIEW v AS SELECT window_start, max(NULL) AS s FROM TUMBLE(orders, ordered_at, INTERVAL '1 hour') GROUP BY window_start
                             ^
hint: CAST it""",
    "TG508": """error TG508: another process is writing "orders": process 4711 on server-1, since 2026-03-01T12:00:00+00:00
hint: wait for it, or stop it; the lock is released when that process ends""",
    "TG509": """error TG509: "orders" is not a view
hint: a source can't be rebuilt: DROP it, and let the next run read everything again""",
    "TG511": """error TG511: "orders" is read by orders_hourly
hint: DROP MATERIALIZED VIEW orders_hourly first""",
    "TG512": """error TG512: "orders_hourly" has no results yet
hint: tidegate run orders_hourly""",
    "TG513": """error TG513: source "payments": /home/ada/shop/data/payments/2026-03-01.parquet is not a Parquet file: Parquet file size is 6 bytes, smaller than the minimum file footer (8 bytes)
hint: none of the rows of this file were stored; repair the file, or remove it""",
    "TG514": """error TG514: the Spark master spark://cluster-1:7077 does not answer
hint: start it (`make cluster` starts one on this machine), or correct spark.master of the environment""",
    "TG515": """error TG515: "orders" is only read in environment "dev": it belongs to "production"
hint: only views that are not those of production run here; run everything else with --env production""",
    "TG516": """error TG516: environment "production" has another definition of "orders"
 --> assets/orders.sql:3:15
3 | CREATE SOURCE orders (
                  ^^^^^^
hint: to try out another watermark or source, use an environment with a warehouse of its own""",
    "TG517": """error TG517: source "orders": the file berlin/2026-03-01-copy.json has the content of berlin/2026-03-01.json, which was read and no longer exists: berlin/2026-03-01-copy.json is taken for the file that was read, and is not read again
 --> assets/orders.sql:3:15
3 | CREATE SOURCE orders (
                  ^^^^^^
hint: move it back to its first name, or out of the source's folder; if it holds other rows, write them again so that the size, the beginning or the end differs (in a JSON or CSV file that is not compressed, an empty line at the end is enough)""",
    "TG518": """error TG518: /home/ada/.ivy2.5.2/jars/org.apache.kafka_kafka-clients-3.9.2.jar is not the jar that tidegate was built with: its SHA-256 is 2c1f…, not 014b…
hint: remove the file, find out who put it there, and fetch it again from Maven Central""",
    "TG519": """error TG519: the work for "matches" took very long and did not advance; it was broken off, and is tried again in a process of its own
hint: look for an expression that takes very long on some values, such as a regular expression with nested repetitions, or for a server that does not answer""",
    "TG520": """error TG520: "orders" is defined by assets/orders.sql, so a statement can't change it
 --> <sql>:1:14
1 | ALTER SOURCE orders ALTER WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1 hour'
                 ^^^^^^
hint: edit the file: WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1 hour'; the next run uses it, and nothing is rebuilt""",
    "TG521": """error TG521: these results stay as they are when the watermark of orders is reset:
  orders_hourly: all results up to 2026-03-01 11:00:00: rows of orders before 2026-03-01 10:00:00 are beyond their retention
hint: agree when you are asked, or with tidegate sql --yes; in Python: session.execute(sql, yes=True)""",
    "TG531": """error TG531: "orders" belongs to project "shop" in environment "production"; this is project "rival" in environment "local", and can only read it
hint: write it from that project and environment; or take it over with tidegate adopt orders; if both are one project, give it one name with project: shop in resources/local.yaml""",
    "TG532": """error TG532: these tables will belong to project "rival" in environment "local"; their former owner can only read them from then on:
  orders: project "shop" in environment "production"
hint: agree when you are asked, or with tidegate adopt --yes""",
    "TG533": """error TG533: these are removed with orders and can't be restored:
  orders: rows: 12 on time, 1 late, 1 rejected; 5 files, 0.1 MB
  these can't continue without it: orders_hourly
  the position up to which its input was read; rows that the input no longer has can't be read again
hint: agree when you are asked, or with tidegate sql --yes; in Python: session.execute(sql, yes=True)""",
    "TG534": """error TG534: nothing was applied, because a part of the plan is refused:
  orders: column "amount" was BIGINT and is INT, which can't hold all of it
hint: for orders: undo the change, or give the new definition another name
or name what is to be applied: tidegate apply NAME …""",
    "TG535": """error TG535: these results are replaced by recomputed ones, and the earlier ones are kept under a tag:
  orders_hourly: its query has changed; reads 13 stored rows
hint: agree when you are asked, or with tidegate apply --yes""",
    "TG536": """error TG536: "orders_hourly" can't be promoted: its results in the branch are of another definition
 --> assets/orders.sql:25:26
25 | CREATE MATERIALIZED VIEW orders_hourly AS
                              ^^^^^^^^^^^^^
hint: tidegate apply orders_hourly computes it""",
    "TG541": """error TG541: "to_accounting" can't deliver into /home/ada/shop/out/accounting: it contains notes.txt
 --> assets/accounting.sql:1:13
1 | CREATE SINK to_accounting FROM orders_hourly
                ^^^^^^^^^^^^^
hint: give the sink a folder of its own, new or empty""",
    "TG542": """error TG542: "orders_hourly" is not the table that "to_accounting" has delivered from until now: it was recreated, or the definition of the sink has changed. Its rows would be delivered twice
hint: DROP SINK to_accounting and CREATE it again, with a new place or with snapshot = 'false'""",
    "TG543": """error TG543: "visits" can't begin: rows of "clicks" are beyond their retention, and it is not known to which results they belong
 --> assets/clicks.sql:9:26
9 | CREATE MATERIALIZED VIEW visits AS
                             ^^^^^^
hint: only windows of a fixed length and sorted rows can begin at the oldest rows that are kept""",
    "TG544": """error TG544: "orders" has no table yet
hint: tidegate run orders""",
    "TG545": """error TG545: "to_accounting" could not deliver into topic revenue: a task failed several times
 --> assets/accounting.sql:1:13
1 | CREATE SINK to_accounting FROM orders_hourly
                ^^^^^^^^^^^^^
hint: no row is lost: the next run reads which rows arrived, and delivers the rest""",
    "TG550": """error TG550: source "clicks": Kafka at broker-1:9092 does not answer: Timed out waiting for a node assignment. Call: listNodes
 --> assets/clicks.sql:1:15
1 | CREATE SOURCE clicks (
                  ^^^^^^
hint: check that the broker runs, properties.bootstrap.server and the login; nothing is lost meanwhile""",
    "TG551": """error TG551: source "clicks": there is no topic clicks at broker-1:9092
hint: create it, or check the options topic and properties.bootstrap.server""",
    "TG552": """error TG552: source "clicks": offsets 1200 to 4799 of partition 0 are gone: the topic clicks removed them before they were read
 --> assets/clicks.sql:1:15
1 | CREATE SOURCE clicks (
                  ^^^^^^
hint: restore them; or set on_data_loss = 'record' to continue after the gap, which the log will show; or DROP SOURCE clicks and begin again with the messages that are kept""",
    "TG553": """error TG553: source "clicks": the topic clicks was deleted and created again, or the servers are of another cluster: its offsets are those of other messages now
 --> assets/clicks.sql:1:15
1 | CREATE SOURCE clicks (
                  ^^^^^^
hint: give the source another name, or DROP SOURCE clicks to begin again; until then, the rows in its log can be read""",
    "TG554": """error TG554: this Spark session has no Kafka connector
hint: start it with spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3, or let tidegate start Spark: it adds the connector for a project with a Kafka source""",
    "TG555": """error TG555: the schema registry does not answer (ConnectionRefusedError)
hint: check schema.registry, schema.registry.username and schema.registry.password; none of the rows of this batch were stored, run again""",
    "TG556": """error TG556: the schema registry gives the text of a .proto file, and not its descriptor
hint: add schema.location = '….desc', which protoc --include_imports --descriptor_set_out=….desc writes, and message""",
    "TG571": """error TG571: not every place that may have the rows of "orders" can be reached, so nothing was erased:
  orders_hourly: counts and sums over the rows (--keep-aggregates keeps them)
hint: "Erasing a person's rows" (docs/erasure.md) says for each of them what can be done""",
    "TG572": """error TG572: these rows, and all earlier snapshots of orders, are removed and can't be restored:
  orders: rows: 12 on time, 1 late; 3 files written again
hint: agree when you are asked, or with tidegate erase --yes""",
    "TG573": """error TG573: another erasure of rows of "orders" was interrupted, and has to be finished first: ada asked for it at 2026-03-01T09:10:00+00:00
hint: tidegate erase orders --resume""",
    "TG561": """error TG561: "running" can't be amended: its OVER windows carry rows and running values from each tick to the next
 --> assets/running.sql:1:26
1 | CREATE MATERIALIZED VIEW running AS
                             ^^^^^^^
hint: views over windows, sessions, joins and sorted rows of append-only sources can be amended""",
    "TG562": """error TG562: "orders_hourly" can't be recomputed from 2026-01-01 00:00:00: older rows are not compared: rows of orders before 2026-02-01 00:00:00 are beyond their retention
 --> assets/orders.sql:25:26
25 | CREATE MATERIALIZED VIEW orders_hourly AS
                              ^^^^^^^^^^^^^
hint: use --range '2026-02-01 00:00:00' …: windows that end after that can be recomputed""",
    "TG563": """error TG563: "orders_daily": not a timestamp (YYYY-MM-DD HH:MM:SS): 'soon'
hint: its windows end at times such as 2026-01-31 12:00:00""",
    "TG564": """error TG564: SOURCE_WATERMARK() is not a constant delay behind the newest row
hint: write for example ordered_at - INTERVAL '1 hour'; tidegate advise orders compares all delays""",
    "TG608": """error TG608: Java 11.0.2 at /usr/bin/java is too old: Spark 4.1 needs 17 or newer
hint: install Java 17 (Debian/Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17), and set JAVA_HOME to it""",
    "TG618": """error TG618: Great Expectations is not installed
hint: pip install great-expectations==1.24.1""",
    "TG622": """error TG622: "orders" has storage version 3, but this release of tidegate knows only versions 1 to 2: a later release has written it
hint: install that later release again; nothing was read or changed""",
    "TG623": """error TG623: /srv/shop/.tidegate/locks/orders.lock can't be used: the disk is full
hint: free some space there (tidegate upkeep, tidegate cleanup, a larger disk); what was committed is kept, and nothing is half done: when this is repaired, run the same command again""",
    "TG624": """error TG624: object storage refuses temporary credentials, because they have expired: When uploading object with key 'tidegate/_streams/main/orders/plans/plan-000000000042' in bucket 'lake': AWS Error UNKNOWN (HTTP status 400) during PutObject operation: Unable to parse ExceptionName: ExpiredToken Message: The provided token has expired.
hint: set new ones and start again; without keys in warehouse.storage, Amazon's default chain renews them by itself (docs/cluster.md, Temporary credentials); what was committed is kept, and nothing is half done: when this is repaired, run the same command again""",
    "TG625": """error TG625: this Python environment has the compiled build of sqlglot, which tidegate's SQL can't extend
hint: pip uninstall sqlglotc; a tool that needs it belongs in an environment of its own""",
    "TG707": """error TG707: the process that carried out this command has ended
hint: what was committed is kept; run the same command again""",
    "TG708": """error TG708: other commands could not use this Spark, because it can't have a socket: [Errno 1] Operation not permitted
hint: the folder .tidegate/workers must be yours, on a file system that has sockets""",
    "TG709": """error TG709: live mode takes up only what can be changed in place:
  orders_hourly (view): new version: its query has changed
hint: tidegate apply orders_hourly""",
    "TG710": """error TG710: live mode does not run for environment "local" in this project folder, on ada-laptop
hint: tidegate live starts it; it reads the definitions when it starts""",
    "TG712": """error TG712: can't write plots: Permission denied
hint: choose another file for --plot or --html""",
    "TG805": """error TG805: the variable "shop" has no value
hint: set it with let shop or in the environment, or write ${shop:default}""",
    "TG907": """warning TG907: "orders_hourly" has changed since it was deployed: its results are those of the earlier query
 --> assets/orders.sql:25:26
25 | CREATE MATERIALIZED VIEW orders_hourly AS
                              ^^^^^^^^^^^^^
hint: tidegate apply orders_hourly recomputes them""",
}
