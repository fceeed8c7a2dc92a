-- TG109
-- how: assets
-- at 7:1
-- message: this front matter is not closed
-- hint: end it with another line `-- ---`, and begin each line between the two with --
CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
-- ---
-- owners: [team:shops]
CREATE MATERIALIZED VIEW v AS SELECT at FROM t;
