"""What looks again and again, without a JVM: lag, open windows, failed runs, live runs."""
