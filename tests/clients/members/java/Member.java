import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A group member on the Java client; settings, events and commands as in tests/clients/members/protocol.py. */
public final class Member implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final JsonNode config;
    private final KafkaConsumer<String, String> consumer;
    private final LinkedBlockingQueue<JsonNode> inbox = new LinkedBlockingQueue<>();
    private final Properties security = new Properties();
    private KafkaProducer<String, String> producer;
    private boolean polling = true;

    private Member(JsonNode config) {
        this.config = config;
        Properties p = new Properties();
        p.put("bootstrap.servers", config.get("bootstrap").asText());
        p.put("group.id", config.get("group").asText());
        p.put("client.id", config.path("client_id").asText("java"));
        List<String> names = new ArrayList<>();
        if (config.has("assignors")) config.get("assignors").forEach(n -> names.add(ASSIGNORS.get(n.asText())));
        if (names.isEmpty()) names.add(ASSIGNORS.get("range"));
        p.put("partition.assignment.strategy", String.join(",", names));
        p.put("session.timeout.ms", config.path("session_ms").asInt(6000));
        p.put("heartbeat.interval.ms", config.path("heartbeat_ms").asInt(500));
        p.put("max.poll.interval.ms", config.path("poll_ms").asInt(30000));
        p.put("auto.offset.reset", config.path("reset").asText("earliest"));
        int auto = config.path("auto_commit_ms").asInt(0);
        p.put("enable.auto.commit", auto > 0);
        if (auto > 0) p.put("auto.commit.interval.ms", auto);
        if (config.hasNonNull("sasl")) {
            JsonNode who = config.get("sasl");
            p.put("security.protocol", "SASL_PLAINTEXT");
            p.put("sasl.mechanism", who.get("mechanism").asText());
            String module = who.get("mechanism").asText().equals("PLAIN") ? "plain.Plain" : "scram.Scram";
            p.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + "LoginModule required username=\""
                + who.get("user").asText() + "\" password=\"" + who.get("password").asText() + "\";");
        }
        if (config.hasNonNull("ca")) {
            p.put("security.protocol", config.hasNonNull("sasl") ? "SASL_SSL" : "SSL");
            p.put("ssl.truststore.type", "PEM");
            p.put("ssl.truststore.location", config.get("ca").asText());
        }
        if (config.hasNonNull("instance")) p.put("group.instance.id", config.get("instance").asText());
        config.path("properties").fields().forEachRemaining(one -> p.put(one.getKey(), one.getValue().asText()));
        p.forEach((name, value) -> {
            if (((String) name).matches("(bootstrap|security|sasl|ssl)\\..*")) security.put(name, value);
        });
        p.put("metadata.max.age.ms", 1000);
        p.put("default.api.timeout.ms", 20000);
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        consumer = new KafkaConsumer<>(p);
        if (config.hasNonNull("assign")) {
            consumer.assign(pairs(config.get("assign")));
        } else if (config.hasNonNull("pattern")) {
            consumer.subscribe(Pattern.compile(config.get("pattern").asText()), this);
        } else {
            consumer.subscribe(strings(config.get("topics")), this);
        }
    }

    private static List<String> strings(JsonNode node) {
        List<String> all = new ArrayList<>();
        node.forEach(n -> all.add(n.asText()));
        return all;
    }

    private static Set<TopicPartition> pairs(JsonNode node) {
        Set<TopicPartition> all = new HashSet<>();
        node.forEach(n -> all.add(new TopicPartition(n.get(0).asText(), n.get(1).asInt())));
        return all;
    }

    private static synchronized void tell(ObjectNode event) {
        System.out.println(event.toString());
        System.out.flush();
    }

    private static ObjectNode event(String name) {
        return JSON.createObjectNode().put("e", name);
    }

    private static void tellPartitions(ObjectNode event, Collection<TopicPartition> partitions) {
        ArrayNode all = event.putArray("tps");
        partitions.stream()
            .sorted((a, b) -> a.topic().equals(b.topic()) ? a.partition() - b.partition() : a.topic().compareTo(b.topic()))
            .forEach(tp -> all.addArray().add(tp.topic()).add(tp.partition()));
        tell(event);
    }

    @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        var of = consumer.groupMetadata();
        tellPartitions(event("assigned").put("generation", of.generationId()).put("member", of.memberId()), partitions);
    }

    @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (config.path("commit_on_revoke").asBoolean(false) && !partitions.isEmpty()) commit(null);
        tellPartitions(event("revoked"), partitions);
    }

    @Override public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tellPartitions(event("lost"), partitions);
    }

    private void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        try {
            if (offsets == null) consumer.commitSync(); else consumer.commitSync(offsets);
            tell(event("committed"));
        } catch (RuntimeException e) {
            tell(event("commit_failed").put("error", e.getClass().getSimpleName()));
        }
    }

    private void produce(String topic, int partition, String value) {
        if (producer == null) {
            security.put("key.serializer", StringSerializer.class.getName());
            security.put("value.serializer", StringSerializer.class.getName());
            producer = new KafkaProducer<>(security);
        }
        producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> tell(error == null
            ? event("produced") : event("produce_failed").put("error", error.getClass().getSimpleName())));
    }

    private boolean obey(JsonNode command) {
        switch (command.get("c").asText()) {
            case "produce" -> produce(
                command.get("t").asText(), command.get("p").asInt(), command.get("v").asText());
            case "commit" -> commit(null);
            case "commit_async" -> consumer.commitAsync((offsets, error) -> tell(error == null
                ? event("committed") : event("commit_failed").put("error", error.getClass().getSimpleName())));
            case "commit_offsets" -> {
                Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
                command.get("offsets").forEach(o -> wanted.put(new TopicPartition(o.get(0).asText(), o.get(1).asInt()),
                    new OffsetAndMetadata(o.get(2).asLong(), o.get(3).asText())));
                commit(wanted);
            }
            case "fetch" -> {
                ObjectNode found = event("fetched");
                ArrayNode all = found.putArray("offsets");
                consumer.committed(pairs(command.get("tps"))).forEach((tp, o) -> {
                    ArrayNode one = all.addArray().add(tp.topic()).add(tp.partition());
                    if (o == null) one.addNull().add(""); else one.add(o.offset()).add(o.metadata());
                });
                tell(found);
            }
            case "seek" -> consumer.seek(
                new TopicPartition(command.get("t").asText(), command.get("p").asInt()), command.get("o").asLong());
            case "stop_polling" -> polling = false;
            case "poll_again" -> polling = true;
            case "subscribe" -> consumer.subscribe(strings(command.get("topics")), this);
            case "close" -> { return false; }
            default -> throw new IllegalArgumentException(command.toString());
        }
        return true;
    }

    private void poll() {
        ObjectNode records = event("records");
        ArrayNode all = records.putArray("rs");
        try {
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(50))) {
                all.addArray().add(r.topic()).add(r.partition()).add(r.offset()).add(r.key()).add(r.value());
            }
        } catch (RuntimeException e) {
            tell(event("error").put("error", e.getClass().getSimpleName()).put("fatal", !(e instanceof RetriableException)));
            for (Throwable why = e; why != null; why = why.getCause()) System.err.println(why);
        }
        if (!all.isEmpty()) tell(records);
    }

    private void run() throws InterruptedException {
        while (true) {
            JsonNode command = inbox.poll(polling ? 1 : 200, TimeUnit.MILLISECONDS);
            if (command != null && !obey(command)) break;
            if (polling) poll();
        }
        consumer.close();
        tell(event("closed"));
    }

    public static void main(String[] args) throws Exception {
        Member member = new Member(JSON.readTree(args[0]));
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) member.inbox.add(JSON.readTree(line));
            } catch (Exception e) {
                e.printStackTrace();
            }
            Runtime.getRuntime().halt(3);
        });
        reader.setDaemon(true);
        reader.start();
        member.run();
        Runtime.getRuntime().halt(0);
    }
}
