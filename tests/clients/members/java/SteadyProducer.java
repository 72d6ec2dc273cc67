import java.io.FileReader;
import java.io.IOException;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer of the Java client's defaults: sends 0, 1, 2, ... to one partition until its input ends, then prints
 * "throttled MS" (the longest time) and "sent N failed M". Arguments: bootstrap, topic, partition, and a file of settings for a listener that asks who one is.
 */
public final class SteadyProducer {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", "java-producer");
        if (args.length > 3) {
            try (FileReader file = new FileReader(args[3])) {
                p.load(file);
            }
        }
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        AtomicInteger failed = new AtomicInteger();
        AtomicReference<String> first = new AtomicReference<>("");
        boolean[] ended = {false};
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException e) {
                // the test is gone: end as if it had closed our input
            }
            ended[0] = true;
        });
        watch.setDaemon(true);
        watch.start();
        int n = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            while (!ended[0]) {
                producer.send(new ProducerRecord<>(args[1], Integer.parseInt(args[2]), null, String.valueOf(n)), (m, e) -> {
                    if (e != null) {
                        failed.incrementAndGet();
                        first.compareAndSet("", e.toString());
                    }
                });
                n++;
                Thread.sleep(10);
            }
            producer.flush();
            producer.metrics().forEach((name, metric) -> {
                if (name.name().equals("produce-throttle-time-max")) System.out.println("throttled " + metric.metricValue());
            });
        }
        System.out.println("sent " + n + " failed " + failed.get() + " " + first.get());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
