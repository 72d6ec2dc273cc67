import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks Kafka's own assignors. One line of words a fact, one answer line a question; "-" means "none":
 *
 *   topic NAME RACKS;RACKS;...           one entry a partition: racks of its replicas, comma-separated
 *   member ID INSTANCE RACK GENERATION USERDATA_HEX TOPIC,TOPIC OWNED:0,OWNED:1
 *   assign ASSIGNOR                      answers "ID=TOPIC:0,TOPIC:1 ID=- ..." or "error TEXT"
 *   subscriptions VERSION                answers "ID=HEX ..." : the serialized subscriptions
 *   assignments VERSION                  answers "ID=HEX ..." : owned partitions as an assignment with the user data
 *
 * A question ends the case: the next line starts an empty one.
 */
public final class AssignorHarness {
    private final Map<String, Subscription> members = new LinkedHashMap<>();
    private final List<PartitionInfo> partitions = new ArrayList<>();
    private final Set<Node> nodes = new HashSet<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        AssignorHarness harness = new AssignorHarness();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer = harness.take(line.split(" "));
            if (answer != null) {
                out.println(answer);
                harness = new AssignorHarness();
            }
        }
        out.flush();
    }

    private String take(String[] words) {
        switch (words[0]) {
            case "topic":
                addTopic(words[1], words[2].split(";", -1));
                return null;
            case "member":
                addMember(words);
                return null;
            case "assign":
                try {
                    return assign(assignor(words[1]));
                } catch (RuntimeException failure) {
                    return "error " + failure;
                }
            case "subscriptions":
                return serialized(subscription ->
                    ConsumerProtocol.serializeSubscription(subscription, Short.parseShort(words[1])));
            case "assignments":
                return serialized(subscription -> ConsumerProtocol.serializeAssignment(
                    new Assignment(subscription.ownedPartitions(), subscription.userData()), Short.parseShort(words[1])));
            default:
                throw new IllegalArgumentException(String.join(" ", words));
        }
    }

    private void addTopic(String name, String[] racksOfPartitions) {
        for (int partition = 0; partition < racksOfPartitions.length; partition++) {
            List<Node> replicas = new ArrayList<>();
            if (!racksOfPartitions[partition].equals("-"))
                for (String rack : racksOfPartitions[partition].split(","))
                    replicas.add(new Node(rack.hashCode() & 0xffff, "host", 1, rack));
            nodes.addAll(replicas);
            Node[] hosts = replicas.isEmpty() ? new Node[] {Node.noNode()} : replicas.toArray(new Node[0]);
            partitions.add(new PartitionInfo(name, partition, hosts[0], hosts, hosts));
        }
    }

    private void addMember(String[] words) {
        ByteBuffer userData = words[5].equals("-") ? null : ByteBuffer.wrap(unhex(words[5]));
        List<String> topics = words[6].equals("-") ? List.of() : List.of(words[6].split(","));
        List<TopicPartition> owned = new ArrayList<>();
        if (!words[7].equals("-"))
            for (String one : words[7].split(","))
                owned.add(new TopicPartition(one.split(":")[0], Integer.parseInt(one.split(":")[1])));
        Optional<String> rack = words[3].equals("-") ? Optional.empty() : Optional.of(words[3]);
        Subscription subscription = new Subscription(topics, userData, owned, Integer.parseInt(words[4]), rack);
        subscription.setGroupInstanceId(words[2].equals("-") ? Optional.empty() : Optional.of(words[2]));
        members.put(words[1], subscription);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    private String assign(ConsumerPartitionAssignor assignor) {
        Cluster cluster = new Cluster("c", nodes, partitions, new HashSet<>(), new HashSet<>());
        // As ConsumerCoordinator does: a plain HashMap, filled in the order of the JoinGroup answer.
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.forEach(subscriptions::put);
        Map<String, Assignment> plan = assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        List<String> answer = new ArrayList<>();
        plan.forEach((member, assignment) -> {
            List<String> assigned = new ArrayList<>();
            assignment.partitions().forEach(tp -> assigned.add(tp.topic() + ":" + tp.partition()));
            answer.add(member + "=" + (assigned.isEmpty() ? "-" : String.join(",", assigned)));
        });
        return String.join(" ", answer);
    }

    private interface Serializer {
        ByteBuffer serialize(Subscription subscription);
    }

    private String serialized(Serializer serializer) {
        List<String> answer = new ArrayList<>();
        members.forEach((member, subscription) -> answer.add(member + "=" + hex(serializer.serialize(subscription))));
        return String.join(" ", answer);
    }

    private static String hex(ByteBuffer buffer) {
        StringBuilder text = new StringBuilder();
        while (buffer.hasRemaining())
            text.append(String.format("%02x", buffer.get()));
        return text.toString();
    }

    private static byte[] unhex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++)
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        return bytes;
    }
}
