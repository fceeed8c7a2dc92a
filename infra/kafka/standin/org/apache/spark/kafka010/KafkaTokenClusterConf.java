// Test-only stand-in for a class of spark-token-provider-kafka-0-10_2.13, for machines whose registry does not have that
// artifact (infra/fetch_jars.py decides). Plaintext brokers only: no delegation tokens, no SASL set-up. Never shipped.
// Plain Java without inferred generics: Spark's own Janino compiles it where there is no JDK.
package org.apache.spark.kafka010;

public class KafkaTokenClusterConf {}
