CREATE SINK s FROM hourly
----
CREATE SINK s FROM hourly WITH (connector = 'kafka')
----
CREATE SINK s FROM hourly WITH (connector = 'filesystem', path = 'out')
----
CREATE SINK s FROM hourly WITH (connector = 'console') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'console', rows = 0)
----
CREATE SINK s FROM hourly WITH (connector = 'console', snapshot = 'perhaps')
----
CREATE SINK s FROM hourly WITH (connector = 'iceberg', table = 'a.b.c')
----
CREATE SINK s FROM hourly WITH (connector = 'iceberg', tabel = 'a')
----
CREATE SINK s FORM hourly WITH (connector = 'iceberg')
----
CREATE SINK s INTO plain FROM hourly
----
CREATE SINK s FROM "orders$late" WITH (connector = 'console')
----
CREATE SINK s FROM deposits WITH (connector = 'console')
----
CREATE SINK s FROM nowhere WITH (connector = 'console')
----
CREATE SINK hourly FROM orders WITH (connector = 'console')
----
CREATE SINK s FROM hourly WITH (connector = 'console') WITH (connector = 'console')
----
CREATE SINK s AS WITH (connector = 'console')
----
CREATE SNK s FROM hourly
----
DROP SINK hourly
----
DROP SINK nothing
----
CREATE SINK s FROM hourly WITH (connector = 'filesystem', path = 'out', amendments = 'upsert') FORMAT PLAIN ENCODE JSON
----
CREATE SINK s FROM hourly WITH (connector = 'console', amendments = 'upsert')
----
CREATE SINK s FROM hourly WITH (connector = 'iceberg', amendments = 'upset')
----
CREATE SINK s FROM orders WITH (connector = 'iceberg', amendments = 'upsert')
