// Test-only stand-in for a class of spark-token-provider-kafka-0-10_2.13, for machines whose registry does not have that
// artifact (infra/fetch_jars.py decides). Plaintext brokers only: no delegation tokens, no SASL set-up. Never shipped.
// Plain Java without inferred generics: Spark's own Janino compiles it where there is no JDK.
package org.apache.spark.kafka010;

import java.util.Map;
import org.apache.spark.SparkConf;
import scala.Option;

public class KafkaTokenUtil$ {
    public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

    public Option findMatchingTokenClusterConfig(SparkConf settings, String servers) {
        return Option.empty();
    }

    public boolean needTokenUpdate(Map options, Option cluster) {
        return false;
    }
}
