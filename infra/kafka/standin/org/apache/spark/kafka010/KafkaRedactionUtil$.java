// Test-only stand-in for a class of spark-token-provider-kafka-0-10_2.13, for machines whose registry does not have that
// artifact (infra/fetch_jars.py decides). Plaintext brokers only: no delegation tokens, no SASL set-up. Never shipped.
// Plain Java without inferred generics: Spark's own Janino compiles it where there is no JDK.
package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

public class KafkaRedactionUtil$ {
    public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

    /** The options with the values of secret ones hidden, for the log. */
    public Seq redactParams(Seq options) {
        ListBuffer shown = new ListBuffer();
        Iterator each = options.iterator();
        while (each.hasNext()) {
            Tuple2 option = (Tuple2) each.next();
            String name = String.valueOf(option._1());
            boolean secret = name.toLowerCase().matches(".*(password|secret|jaas|token).*");
            shown.addOne(new Tuple2(name, secret ? "*********(redacted)" : String.valueOf(option._2())));
        }
        return (Seq) shown.toList();
    }
}
