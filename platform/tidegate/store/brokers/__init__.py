"""What brokers say, without a JVM: offsets, topics, and how a client proves who it is."""
