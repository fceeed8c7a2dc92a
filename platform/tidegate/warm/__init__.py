"""Commands that a process with a running Spark carries out for another one: who asks, who answers, and what has to be
the same in both. No Spark here, and nothing heavy: the process that asks ends within half a second."""
