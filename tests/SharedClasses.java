// Loads the classes of Kafka's clients and tools, and lets each client begin, so that a JVM that ends here with
// -XX:ArchiveClassesAtExit keeps them in an archive (tests/java_tools.py). Nobody listens where the clients ask.
//
//     java -XX:ArchiveClassesAtExit=FILE -cp JARS SharedClasses.java

import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class SharedClasses {
    private static final List<String> JARS = List.of(
        "kafka-clients", "kafka-tools", "kafka-server-common", "kafka_", "scala-library", "jopt-simple", "argparse4j",
        "jackson", "slf4j", "log4j");
    private static final int WAIT_MS = 300;

    public static void main(String[] arguments) throws Exception {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            String name = new File(path).getName();
            if (name.endsWith(".jar") && JARS.stream().anyMatch(name::startsWith)) {
                load(path);
            }
        }
        begin();
    }

    private static void load(String path) throws IOException {
        try (JarFile jar = new JarFile(path)) {
            for (JarEntry entry : Collections.list(jar.entries())) {
                String name = entry.getName();
                if (!name.endsWith(".class") || name.startsWith("META-INF") || name.endsWith("module-info.class")) {
                    continue;
                }
                try {
                    String type = name.substring(0, name.length() - ".class".length()).replace('/', '.');
                    Class.forName(type, false, ClassLoader.getSystemClassLoader());
                } catch (ClassNotFoundException | LinkageError missing) {
                    continue; // of a library that Kafka does without
                }
            }
        }
    }

    private static void begin() throws InterruptedException {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", "127.0.0.1:1", "group.id", "g", "max.block.ms", WAIT_MS,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class,
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class);
        try (Admin admin = Admin.create(settings)) {
            admin.listTopics(new ListTopicsOptions().timeoutMs(WAIT_MS)).names().get();
        } catch (ExecutionException nobody) {
            // as it should be
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.flush();
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of("t"));
            consumer.poll(Duration.ofMillis(WAIT_MS));
        }
    }
}
