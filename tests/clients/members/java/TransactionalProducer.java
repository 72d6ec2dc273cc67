import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer that does what the lines of its input say, one at a time, and answers each with "ok" or
 * "failed CLASS WORDS": init; begin; send TOPIC PARTITION VALUE; offset GROUP TOPIC PARTITION OFFSET; commit; abort.
 */
public final class TransactionalProducer {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("transactional.id", args[1]);
        p.put("transaction.timeout.ms", args[2]);
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        p.put("max.block.ms", "30000");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        KafkaProducer<String, String> producer = new KafkaProducer<>(p);
        String line;
        while ((line = in.readLine()) != null) {
            String answer = "ok";
            try {
                act(producer, line.split(" "));
            } catch (Exception e) {
                Throwable why = e.getCause() == null ? e : e.getCause();
                answer = "failed " + why.getClass().getSimpleName() + " " + String.valueOf(why.getMessage()).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void act(KafkaProducer<String, String> producer, String[] words) throws Exception {
        switch (words[0]) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, words[3])).get();
            case "offset" -> {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(new TopicPartition(words[2], Integer.parseInt(words[3])), new OffsetAndMetadata(Long.parseLong(words[4])));
                producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(words[1]));
            }
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(words[0]);
        }
    }
}
