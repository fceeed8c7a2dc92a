#!/bin/sh
# Run once, by the image, when its volume is empty: Iceberg's catalog and Dagster's storage, each with its own user.
set -eu
for name in iceberg dagster; do
  psql --username postgres --set ON_ERROR_STOP=1 --set password="$POSTGRES_PASSWORD" <<SQL
CREATE USER $name PASSWORD :'password';
CREATE DATABASE $name OWNER $name;
SQL
done
