// Test-only stand-in for a class of spark-token-provider-kafka-0-10_2.13, for machines whose registry does not have that
// artifact (infra/fetch_jars.py decides). Plaintext brokers only: no delegation tokens, no SASL set-up. Never shipped.
// Plain Java without inferred generics: Spark's own Janino compiles it where there is no JDK.
package org.apache.spark.kafka010;

import java.util.HashMap;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;

public class KafkaConfigUpdater {
    private final HashMap options = new HashMap();

    public KafkaConfigUpdater(String module, Map given) {
        Iterator each = given.iterator();
        while (each.hasNext()) {
            Tuple2 option = (Tuple2) each.next();
            options.put(option._1(), option._2());
        }
    }

    public KafkaConfigUpdater set(String name, Object value) {
        options.put(name, value);
        return this;
    }

    public KafkaConfigUpdater setIfUnset(String name, Object value) {
        options.putIfAbsent(name, value);
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded(Option cluster) {
        return this;
    }

    public java.util.Map build() {
        return options;
    }
}
