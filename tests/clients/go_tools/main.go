// One administrator's round in each of three Go libraries: what they tell is printed as a line of JSON.
//
// Usage: go_tools sarama|kafka-go|kadm BOOTSTRAP TOPIC; for `produce` see produce.go, for `member` member.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 12

type told map[string]any

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func must(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

// The second change's value, or what is there after five seconds: a broker that is asked may apply it a moment later.
func eventually(configs func() map[string]string) map[string]string {
	until := time.Now().Add(5 * time.Second)
	for {
		found := configs()
		if found["segment.ms"] == "2000000" || time.Now().After(until) {
			return found
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func viaSarama(bootstrap, topic string) told {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config)
	must("connect", err)
	defer admin.Close()
	must("create", admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}, false))
	described, err := admin.DescribeTopics([]string{topic})
	must("describe", err)
	leaderless := 0
	for _, one := range described[0].Partitions {
		if one.Leader < 0 {
			leaderless++
		}
	}
	retention, segment := "1000000", "2000000"
	must("alter", admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &retention}, false))
	must("alter again", admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"segment.ms": &segment}, false))
	configs := eventually(func() map[string]string {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
		must("configs", err)
		configs := map[string]string{}
		for _, entry := range entries {
			configs[entry.Name] = entry.Value
		}
		return configs
	})
	any := sarama.AclFilter{ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	_, acls := admin.ListAcls(any)
	brokers, _, err := admin.DescribeCluster()
	must("cluster", err)
	ids := []int32{}
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	dirs, err := admin.DescribeLogDirs(ids)
	must("log dirs", err)
	local := 0
	for _, of := range dirs {
		for _, dir := range of {
			for _, one := range dir.Topics {
				if one.Topic == topic {
					local += len(one.Partitions)
				}
			}
		}
	}
	must("delete", admin.DeleteTopic(topic))
	return told{"leaderless": leaderless, "retention": configs["retention.ms"], "segment": configs["segment.ms"],
		"acls": text(acls), "brokers": len(ids), "replicas": local}
}

func viaKafkaGo(bootstrap, topic string) told {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: 20 * time.Second}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1}}})
	must("create", err)
	must("create", created.Errors[topic])
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	must("metadata", err)
	leaderless := 0
	for _, one := range metadata.Topics[0].Partitions {
		if one.Error != nil || one.Leader.Host == "" {
			leaderless++
		}
	}
	for _, config := range []kafka.AlterConfigRequestConfig{
		{Name: "retention.ms", Value: "1000000"}, {Name: "segment.ms", Value: "2000000"}} {
		altered, err := client.AlterConfigs(ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: []kafka.AlterConfigRequestConfig{config}}}})
		must("alter", err)
		for _, one := range altered.Errors {
			must("alter", one)
		}
	}
	configs := eventually(func() map[string]string {
		described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}}})
		must("configs", err)
		configs := map[string]string{}
		for _, entry := range described.Resources[0].ConfigEntries {
			configs[entry.ConfigName] = entry.ConfigValue
		}
		return configs
	})
	acls, err := client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: "User:me", Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow}}})
	must("acls", err)
	elected, err := client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{Topic: topic, Partitions: []int{0}})
	must("elect", err)
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	must("delete", err)
	must("delete", deleted.Errors[topic])
	return told{"leaderless": leaderless, "retention": configs["retention.ms"], "segment": configs["segment.ms"],
		"acls": text(acls.Errors[0]), "elected": text(elected.PartitionResults[0].Error)}
}

func viaKadm(bootstrap, topic string) told {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	must("client", err)
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, partitions, -1, nil, topic)
	must("create", err)
	topics, err := admin.ListTopics(ctx, topic)
	must("topics", err)
	leaderless := 0
	for _, one := range topics[topic].Partitions {
		if one.Err != nil || one.Leader < 0 {
			leaderless++
		}
	}
	one, two := "1000000", "2000000"
	for _, config := range []kadm.AlterConfig{{Name: "retention.ms", Value: &one}, {Name: "segment.ms", Value: &two}} {
		altered, err := admin.AlterTopicConfigsState(ctx, []kadm.AlterConfig{config}, topic)
		must("alter", err)
		must("alter", altered[0].Err)
	}
	configs := eventually(func() map[string]string {
		described, err := admin.DescribeTopicConfigs(ctx, topic)
		must("configs", err)
		configs := map[string]string{}
		for _, entry := range described[0].Configs {
			configs[entry.Key] = entry.MaybeValue()
		}
		return configs
	})
	acls, err := admin.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Operations().ResourcePatternType(kadm.ACLPatternAny))
	aclError := err
	if err == nil && len(acls) > 0 {
		aclError = acls[0].Err
	}
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	must("log dirs", err)
	local := 0
	dirs.Each(func(dir kadm.DescribedLogDir) { local += len(dir.Topics[topic]) })
	transactions, err := admin.ListTransactions(ctx, nil, nil)
	must("transactions", err)
	quotas, err := admin.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: 2}})
	must("quotas", err)
	versions, err := admin.ApiVersions(ctx)
	must("versions", err)
	guess := ""
	for _, one := range versions {
		guess = one.VersionGuess()
	}
	_, err = admin.DeleteTopics(ctx, topic)
	must("delete", err)
	return told{"leaderless": leaderless, "retention": configs["retention.ms"], "segment": configs["segment.ms"],
		"acls": aclError == kerr.SecurityDisabled, "replicas": local, "transactions": len(transactions),
		"quotas": len(quotas), "guess": guess}
}

func main() {
	if os.Args[1] == "produce" {
		produce(os.Args[2:])
		return
	}
	if os.Args[1] == "member" {
		member(os.Args[2:])
		return
	}
	library, bootstrap, topic := os.Args[1], os.Args[2], os.Args[3]
	result := map[string]func(string, string) told{"sarama": viaSarama, "kafka-go": viaKafkaGo, "kadm": viaKadm}[library](bootstrap, topic)
	must("json", json.NewEncoder(os.Stdout).Encode(result))
}
