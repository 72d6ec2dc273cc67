import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer that sends NAME/0, NAME/1, ... to several partitions without waiting, in small batches, until its input
 * ends. Then it prints {"sent": N, "failed": {"partition": [numbers]}}.
 *
 * Arguments: bootstrap, topic, partitions (1,2,3), name, request time-out and pace in milliseconds.
 */
public final class BurstProducer {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", args[3]);
        p.put("linger.ms", 2);
        p.put("batch.size", 512);
        p.put("buffer.memory", 1 << 19); // about a thousand batches may wait: then send does
        p.put("max.block.ms", 120_000);
        p.put("request.timeout.ms", Integer.parseInt(args[4]));
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        List<Integer> partitions = Arrays.stream(args[2].split(",")).map(Integer::parseInt).toList();
        Map<Integer, ConcurrentLinkedQueue<Integer>> failed = new TreeMap<>();
        partitions.forEach(partition -> failed.put(partition, new ConcurrentLinkedQueue<>()));
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException e) {
                // the test is gone: end as if it had closed our input
            }
        });
        watch.setDaemon(true);
        watch.start();
        int n = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            while (watch.isAlive()) {
                int number = n++;
                for (int partition : partitions) {
                    producer.send(new ProducerRecord<>(args[1], partition, null, args[3] + "/" + number), (m, e) -> {
                        if (e != null) failed.get(partition).add(number);
                    });
                }
                Thread.sleep(Integer.parseInt(args[5]));
            }
            producer.flush();
        }
        List<String> parts = new ArrayList<>();
        failed.forEach((partition, numbers) -> parts.add("\"" + partition + "\": ["
            + numbers.stream().map(String::valueOf).collect(Collectors.joining(", ")) + "]"));
        System.out.println("{\"sent\": " + n + ", \"failed\": {" + String.join(", ", parts) + "}}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
