import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Copies a topic by Kafka Streams until its input ends. Arguments: from, to, then Streams' properties as key=value. */
public final class StreamsCopy {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int n = 2; n < arguments.length; n++) {
            String[] pair = arguments[n].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        properties.put("default.key.serde", Serdes.Bytes().getClass());
        properties.put("default.value.serde", Serdes.Bytes().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[0]).to(arguments[1]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.start();
            while (System.in.read() >= 0) { }
        }
    }
}
