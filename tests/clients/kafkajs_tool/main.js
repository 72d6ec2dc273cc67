// An administrator's round by kafkajs; what it tells is printed as a line of JSON.
//
// Usage: node main.js BOOTSTRAP TOPIC (NODE_PATH names the folder of kafkajs)
'use strict'
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ConfigResourceTypes, Kafka, ResourcePatternTypes, logLevel } =
  require('kafkajs')

const PARTITIONS = 12
const [bootstrap, topic] = process.argv.slice(2)

const outcome = async (call) => {
  try {
    await call()
    return ''
  } catch (error) {
    return error.type || error.message
  }
}

const eventually = async (ask) => {
  const until = Date.now() + 5000
  for (;;) {
    const found = await ask()
    if (found['segment.ms'] === '2000000' || Date.now() > until) return found
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const round = async () => {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, retry: { retries: 3 } })
  const admin = kafka.admin()
  await admin.connect()
  const leaderless = async (name, least) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [name] })
    const led = topics[0].partitions.filter((one) => one.leader >= 0).length
    return Math.max(least, topics[0].partitions.length) - led
  }
  const told = {}
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: -1 }], waitForLeaders: false })
  told.leaderless = await leaderless(topic, PARTITIONS)
  const brokers = (await admin.describeCluster()).brokers.map((one) => one.nodeId)
  told.brokers = brokers.length
  const assigned = `${topic}-assigned`
  await admin.createTopics({
    topics: [{ topic: assigned, replicaAssignment: [{ partition: 0, replicas: brokers }] }],
    waitForLeaders: false
  })
  told.assigned = (await admin.fetchTopicMetadata({ topics: [assigned] })).topics[0].partitions[0].replicas.length
  await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS + 3 }] })
  told.leaderlessGrown = await leaderless(topic, PARTITIONS + 3)
  for (const [name, value] of [['retention.ms', '1000000'], ['segment.ms', '2000000']]) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }
    await admin.alterConfigs({ validateOnly: false, resources: [resource] })
  }
  const configs = await eventually(async () => {
    const { resources } = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }] })
    return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
  })
  told.retention = configs['retention.ms']
  told.segment = configs['segment.ms']
  const broker = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.BROKER, name: String(brokers[0]) }] })
  const of = Object.fromEntries(broker.resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
  told.copies = of['default.replication.factor']
  told.release = of['inter.broker.protocol.version'] || ''
  const acl = {
    resourceType: AclResourceTypes.TOPIC, resourceName: topic, resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: 'User:me', host: '*', operation: AclOperationTypes.READ, permissionType: AclPermissionTypes.ALLOW
  }
  told.aclsCreated = await outcome(() => admin.createAcls({ acl: [acl] }))
  told.aclsDescribed = await outcome(() => admin.describeAcls(acl))
  told.aclsDeleted = await outcome(() => admin.deleteAcls({ filters: [acl] }))
  const moving = await admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] })
  told.moving = moving.topics.length
  await admin.deleteTopics({ topics: [topic, assigned] })
  await admin.disconnect()
  return told
}

round().then(
  (told) => console.log(JSON.stringify(told)),
  (error) => {
    console.error(error)
    process.exit(1)
  }
)
