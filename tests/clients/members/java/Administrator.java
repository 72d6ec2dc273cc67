import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * An administrator's round by Kafka's own Admin; what it tells is printed as a line of JSON.
 *
 * Arguments: bootstrap, topic.
 */
public final class Administrator {
    private static final int PARTITIONS = 12;

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", "java-admin");
        p.put("default.api.timeout.ms", 30_000);
        Map<String, Object> told = new TreeMap<>();
        try (Admin admin = Admin.create(p)) {
            topics(admin, args[1], told);
            configs(admin, args[1], told);
            security(admin, args[1], told);
            views(admin, args[1], told);
            moves(admin, args[1], told);
            admin.deleteTopics(List.of(args[1], args[1] + "-assigned")).all().get();
        }
        System.out.println(new ObjectMapper().writeValueAsString(told));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static long leaderless(Admin admin, String topic, int partitions) throws Exception {
        TopicDescription found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        return partitions - found.partitions().stream().filter(one -> one.leader() != null && !one.leader().isEmpty()).count();
    }

    private static void topics(Admin admin, String topic, Map<String, Object> told) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(PARTITIONS), Optional.empty()))).all().get();
        told.put("leaderless", leaderless(admin, topic, PARTITIONS));
        List<Integer> brokers = admin.describeCluster().nodes().get().stream().map(node -> node.id()).sorted().toList();
        told.put("brokers", brokers.size());
        admin.createTopics(List.of(new NewTopic(topic + "-assigned", Map.of(0, brokers)))).all().get();
        told.put("assigned", admin.describeTopics(List.of(topic + "-assigned")).allTopicNames().get().get(topic + "-assigned")
            .partitions().get(0).replicas().size());
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(PARTITIONS + 3))).all().get();
        told.put("leaderlessGrown", leaderless(admin, topic, PARTITIONS + 3));
    }

    private static void configs(Admin admin, String topic, Map<String, Object> told) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        for (var entry : List.of(new ConfigEntry("retention.ms", "1000000"), new ConfigEntry("segment.ms", "2000000"))) {
            Collection<AlterConfigOp> set = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(resource, set)).all().get();
        }
        long until = System.currentTimeMillis() + 5_000;
        Config of = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        while (!of.get("segment.ms").value().equals("2000000") && System.currentTimeMillis() < until) {
            Thread.sleep(20);
            of = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        }
        told.put("retention", of.get("retention.ms").value());
        told.put("segment", of.get("segment.ms").value());
        String id = admin.describeCluster().nodes().get().iterator().next().idString();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, id);
        Config ofBroker = admin.describeConfigs(List.of(broker)).all().get().get(broker);
        told.put("copies", ofBroker.get("default.replication.factor").value());
        ConfigEntry release = ofBroker.get("inter.broker.protocol.version");
        told.put("release", release == null ? "" : release.value());
    }

    private static void security(Admin admin, String topic, Map<String, Object> told) throws Exception {
        AclBinding acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry("User:me", "*", AclOperation.READ, AclPermissionType.ALLOW));
        told.put("aclsDescribed", outcome(() -> admin.describeAcls(AclBindingFilter.ANY).values().get()));
        told.put("aclsCreated", outcome(() -> admin.createAcls(List.of(acl)).all().get()));
        told.put("aclsDeleted", outcome(() -> admin.deleteAcls(List.of(acl.toFilter())).all().get()));
    }

    private static void views(Admin admin, String topic, Map<String, Object> told) throws Exception {
        List<Integer> brokers = admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList();
        long local = 0;
        for (var dirs : admin.describeLogDirs(brokers).allDescriptions().get().values())
            for (var dir : dirs.values())
                local += dir.replicaInfos().keySet().stream().filter(one -> one.topic().equals(topic)).count();
        told.put("replicas", local);
        var quorum = admin.describeMetadataQuorum().quorumInfo().get();
        told.put("voters", quorum.voters().size());
        told.put("quorumLeader", quorum.leaderId() >= 0);
        told.put("quotas", admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size());
        told.put("elected", outcome(() -> {
            var all = admin.electLeaders(ElectionType.PREFERRED, Set.of(new TopicPartition(topic, 0))).partitions().get();
            Optional<Throwable> error = all.getOrDefault(new TopicPartition(topic, 0), Optional.empty());
            if (error.isPresent()) throw new ExecutionException(error.get());
            return null;
        }));
        told.put("moving", admin.listPartitionReassignments().reassignments().get().size());
        told.put("transactions", admin.listTransactions().all().get().size());
    }

    /** Another order of the replicas is no move, and complete at once. */
    private static void moves(Admin admin, String topic, Map<String, Object> told) throws Exception {
        TopicPartition one = new TopicPartition(topic, 1);
        List<Integer> brokers = new ArrayList<>(admin.describeCluster().nodes().get().stream().map(node -> node.id()).sorted().toList());
        Collections.reverse(brokers);
        told.put("moved", moved(admin, one, Optional.of(brokers)));
        long until = System.currentTimeMillis() + 5_000;
        List<Integer> shown = List.of();
        while (!shown.equals(brokers) && System.currentTimeMillis() < until) {
            shown = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(1).replicas()
                .stream().map(node -> node.id()).toList();
            Thread.sleep(20);
        }
        told.put("movedTo", shown.equals(brokers));
        told.put("movedToNobody", moved(admin, one, Optional.of(List.of(99))));
        told.put("cancelled", moved(admin, one, Optional.empty()));
        told.put("unknownMoved", moved(admin, new TopicPartition(topic, 99), Optional.of(brokers)));
        told.put("listed", admin.listPartitionReassignments(Set.of(one)).reassignments().get().size());
        told.put("unregistered", outcome(() -> admin.unregisterBroker(99).all().get()));
        var level = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("muster.feature.level");
        told.put("level", level == null ? 0 : level.maxVersionLevel());
        told.put("lowered", outcome(() -> admin.updateFeatures(
            Map.of("muster.feature.level", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE)),
            new UpdateFeaturesOptions()).all().get()));
    }

    private static String moved(Admin admin, TopicPartition partition, Optional<List<Integer>> replicas) throws Exception {
        return outcome(() -> admin.alterPartitionReassignments(
            Map.of(partition, replicas.map(NewPartitionReassignment::new))).all().get());
    }

    private static String outcome(Callable<Object> call) throws Exception {
        try {
            call.call();
            return "";
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        }
    }
}
