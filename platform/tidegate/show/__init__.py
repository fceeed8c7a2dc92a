"""`tidegate show`: the newest rows of what is stored, read from Iceberg by Arrow, without a JVM."""
