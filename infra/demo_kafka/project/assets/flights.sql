-- Departures from New York's three airports, as messages of a Kafka topic with one partition for each airport.
-- A flight belongs to the hour it was scheduled for; a delayed one leaves, and so arrives here, later.
CREATE SOURCE flights (
    carrier VARCHAR,
    flight INT,
    origin VARCHAR,
    dest VARCHAR,
    sched_dep TIMESTAMP,
    dep_delay DOUBLE,
    WATERMARK FOR sched_dep AS sched_dep - INTERVAL '1 hour'
) WITH (
    connector = 'kafka',
    topic = 'flights',
    properties.bootstrap.server = '${TIDEGATE_KAFKA}',
    scan.startup.mode = 'earliest',
    -- So short that the demo can show it; five minutes if left out.
    idle_timeout = '10 seconds'
) FORMAT PLAIN ENCODE JSON;

-- How many flights left in each hour, and how late they were.
CREATE MATERIALIZED VIEW departures_hourly AS
SELECT window_start, window_end, count(*) AS departures, avg(dep_delay) AS avg_dep_delay
FROM TUMBLE(flights, sched_dep, INTERVAL '1 hour')
GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
