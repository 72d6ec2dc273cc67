import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Counts words, joins a stream with a table and a stream with a stream, and counts by windows.
 *
 * Arguments: how far apart two records are that join, the size of a window and its grace, all in milliseconds, the
 * number of partitions; then Streams' properties as key=value. Commands, a line each, and what is printed of them:
 *   add          added NAME              a stream thread more
 *   remove       removed NAME            one less
 *   tasks        tasks ACTIVE STANDBY    how many the threads have
 *   dump STORE   entry PARTITION KEY VALUE for each entry of active tasks (tabs between), then end STORE PARTITIONS
 *   close        closed                  static members do not leave; the end of the input is the same
 */
public final class StreamsJoins {
    private static final Consumed<String, String> TEXTS = Consumed.with(Serdes.String(), Serdes.String());

    public static void main(String[] args) throws Exception {
        long[] ms = Arrays.stream(args, 0, 3).mapToLong(Long::parseLong).toArray();
        int partitions = Integer.parseInt(args[3]);
        Properties p = new Properties();
        for (String pair : Arrays.copyOfRange(args, 4, args.length)) {
            p.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        StreamsBuilder builder = new StreamsBuilder();
        words(builder);
        orders(builder);
        pairs(builder, ms[0]);
        windows(builder, ms[1], ms[2]);
        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        streams.setStateListener((now, before) -> say("state " + now));
        streams.setUncaughtExceptionHandler(e -> {
            say("failed " + e);
            e.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.equals("close"); line = in.readLine()) {
            obey(streams, line.split(" "), partitions);
        }
        say(streams.close(Duration.ofSeconds(60)) ? "closed" : "not closed");
        Runtime.getRuntime().halt(0);
    }

    /** A line that is null is a null value of a word; the word "-" has no key. */
    private static void words(StreamsBuilder builder) {
        builder.stream("lines", TEXTS)
            .flatMapValues(
                line -> line == null ? Collections.<String>singletonList(null) : Arrays.asList(line.split(" ")))
            .groupBy(
                (key, word) -> word == null ? "nothing" : word.equals("-") ? null : word,
                Grouped.with("counts", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to("counts-out", Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void orders(StreamsBuilder builder) {
        builder.stream("orders", TEXTS)
            .join(
                builder.table("users", TEXTS, Materialized.as("users")),
                (order, user) -> order + "|" + user,
                Joined.with(Serdes.String(), Serdes.String(), Serdes.String()))
            .to("orders-out", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static void pairs(StreamsBuilder builder, long withinMs) {
        KStream<String, String> left = builder.stream("left", TEXTS);
        left.join(
                builder.stream("right", TEXTS),
                (one, other) -> one + "|" + other,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(withinMs), Duration.ofHours(6)),
                StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String())
                    .withName("pairs")
                    .withStoreName("pairs"))
            .to("pairs-out", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static void windows(StreamsBuilder builder, long sizeMs, long graceMs) {
        builder.stream("events", TEXTS)
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(sizeMs), Duration.ofMillis(graceMs)))
            .count(
                Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows").withRetention(Duration.ofDays(1)))
            .toStream((window, count) -> name(window))
            .to("windows-out", Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static String name(Windowed<String> window) {
        return window.key() + "@" + window.window().start();
    }

    private static void obey(KafkaStreams streams, String[] command, int partitions) {
        switch (command[0]) {
            case "add": say("added " + streams.addStreamThread().orElse("none")); break;
            case "remove": say("removed " + streams.removeStreamThread(Duration.ofSeconds(60)).orElse("none")); break;
            case "tasks": say(tasks(streams)); break;
            default: dump(streams, command[1], partitions);
        }
    }

    private static String tasks(KafkaStreams streams) {
        int active = 0, standby = 0;
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            active += thread.activeTasks().size();
            standby += thread.standbyTasks().size();
        }
        return "tasks " + active + " " + standby;
    }

    private static void dump(KafkaStreams streams, String name, int partitions) {
        StringBuilder here = new StringBuilder();
        for (int partition = 0; partition < partitions; partition++) {
            try {
                StringBuilder entries = new StringBuilder();
                if (name.equals("windows")) {
                    ReadOnlyWindowStore<String, Long> store = streams.store(
                        StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.<String, Long>windowStore())
                            .withPartition(partition));
                    try (KeyValueIterator<Windowed<String>, Long> all = store.all()) {
                        all.forEachRemaining(e -> entries.append(name(e.key) + "\t" + e.value + "\n"));
                    }
                } else {
                    ReadOnlyKeyValueStore<String, Object> store = streams.store(
                        StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.<String, Object>keyValueStore())
                            .withPartition(partition));
                    try (KeyValueIterator<String, Object> all = store.all()) {
                        all.forEachRemaining(e -> entries.append(e.key + "\t" + e.value + "\n"));
                    }
                }
                for (String entry : entries.toString().split("\n")) {
                    if (!entry.isEmpty()) {
                        say("entry\t" + partition + "\t" + entry);
                    }
                }
                here.append(' ').append(partition);
            } catch (InvalidStateStoreException e) {
                // No active task of it is here, or it moves just now.
            }
        }
        say("end " + name + here);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
