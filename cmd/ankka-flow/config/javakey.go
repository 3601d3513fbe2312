package config

// Scope says in which section a name of the Java client may stand.
type Scope uint8

const (
	// InConnection is connection-config.
	InConnection Scope = 1 << iota
	// InConsumer is consumer-config.
	InConsumer
	// InProducer is producer-config.
	InProducer
)

// scopes are the sections, in their order.
var scopes = []struct {
	scope   Scope
	section string
}{{InConnection, "connection-config"}, {InConsumer, "consumer-config"}, {InProducer, "producer-config"}}

// JavaKey is what becomes of one name of the Java client.
type JavaKey struct {
	Name string
	// In is where it is honoured; 0: nowhere.
	In Scope
	// Kind, Choices, Least and Empty judge the text as those of a Key do. A
	// Duration is milliseconds here, as in Java.
	Kind    Kind
	Choices []string
	Least   int64
	Empty   bool
	Secret  bool
	// Explain says the meaning with a text that is not one of Choices, because it is
	// one of Java's.
	Explain bool
	// Meaning is what it does here. For a name that is refused, why, and what to
	// do instead.
	Meaning string
}

func honoured(name string, in Scope, kind Kind, meaning string) JavaKey {
	return JavaKey{Name: name, In: in, Kind: kind, Meaning: meaning}
}

func milliseconds(name string, in Scope, least int64, meaning string) JavaKey {
	return JavaKey{Name: name, In: in, Kind: Duration, Least: least, Meaning: meaning}
}

// fixed is a name that has one good value, the one that holds anyway.
func fixed(name string, in Scope, meaning string, values ...string) JavaKey {
	return JavaKey{Name: name, In: in, Kind: Choice, Choices: values, Explain: true, Meaning: meaning}
}

func secret(name string, meaning string) JavaKey {
	return JavaKey{Name: name, In: InConnection, Kind: Text, Secret: true, Meaning: meaning}
}

func refused(why string, names ...string) []JavaKey {
	var keys []JavaKey
	for _, name := range names {
		keys = append(keys, JavaKey{Name: name, Meaning: why})
	}
	return keys
}

// JavaKeys has every name of the Java clients (of 4.x, and older ones that are
// still met), and librdkafka's where they differ. None is ignored: it is honoured
// in the sections of In, or refused.
var JavaKeys = concat([]JavaKey{
	honoured("client.id", InConnection|InConsumer, Text, "client id of the requests; in an inlet the same as client-id. The producer's requests carry the connection's (default: ankka-flow)"),
	{Name: "security.protocol", In: InConnection, Kind: Choice, Choices: []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, Meaning: "TLS, SASL, both or neither (default: PLAINTEXT)"},
	{Name: "sasl.mechanism", In: InConnection, Kind: Choice, Choices: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, Explain: true, Meaning: "how the password is proved; GSSAPI (Java's default) and OAUTHBEARER are not spoken"},
	secret("sasl.jaas.config", "user and password as a line for PlainLoginModule or ScramLoginModule"),
	honoured("sasl.username", InConnection, Text, "user, in place of sasl.jaas.config"),
	secret("sasl.password", "password, in place of sasl.jaas.config"),
	{Name: "ssl.truststore.type", In: InConnection, Kind: Choice, Choices: []string{"PEM"}, Explain: true, Meaning: "only PEM is read: convert a JKS with keytool -exportcert -rfc, a PKCS12 with openssl pkcs12 -nokeys"},
	honoured("ssl.truststore.location", InConnection, Path, "PEM file with the certificates of the authorities to trust (default: the system's)"),
	honoured("ssl.truststore.certificates", InConnection, Text, "the same, as text"),
	{Name: "ssl.keystore.type", In: InConnection, Kind: Choice, Choices: []string{"PEM"}, Explain: true, Meaning: "only PEM is read: convert a PKCS12 with openssl pkcs12"},
	honoured("ssl.keystore.location", InConnection, Path, "PEM file with our own certificate, its chain and its key"),
	honoured("ssl.keystore.certificate.chain", InConnection, Text, "our own certificate and its chain, as PEM text"),
	secret("ssl.keystore.key", "the key of our certificate, as PEM text"),
	secret("ssl.key.password", "password of an encrypted key"),
	{Name: "ssl.endpoint.identification.algorithm", In: InConnection, Kind: Choice, Choices: []string{"https", ""}, Empty: true, Meaning: "empty: the host in the broker's certificate is not checked (default: https)"},
	milliseconds("request.timeout.ms", InConnection, 1, "how long a request may take (default: 30000)"),
	milliseconds("socket.connection.setup.timeout.ms", InConnection, 1, "how long a connection may take to open (default: 2000)"),

	milliseconds("session.timeout.ms", InConsumer, 1000, "after which a silent member's partitions are given away (default: 45000; 6000 on the embedded broker)"),
	{Name: "auto.offset.reset", In: InConsumer, Kind: Choice, Choices: []string{"earliest", "latest"}, Explain: true, Meaning: "where a new group starts, and where a partition goes on whose committed offset is outside the log. Unset, a new group starts at the earliest and such a partition is blocked, visibly (Java's default is latest). none: leave it out instead"},
	{Name: "isolation.level", In: InConsumer, Kind: Choice, Choices: []string{"read_committed", "read_uncommitted"}, Meaning: "whether records of open and aborted transactions are left out (default: read_committed; Java's default is read_uncommitted)"},
	honoured("group.instance.id", InConsumer, Text, "name of a static member: at a stop its partitions are kept for it, for a session timeout; each supervisor needs one of its own (default outside containers: one of this directory, which is left at a stop). Inlets that share a group get it with their name behind it"),
	{Name: "partition.assignment.strategy", In: InConsumer, Kind: List, Meaning: "cooperative-sticky, range or both, in the order preferred; Java's class names work (default: cooperative-sticky)"},

	{Name: "compression.type", In: InProducer, Kind: Choice, Choices: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Meaning: "of what is written (default: none)"},
	{Name: "batch.size", In: InProducer, Kind: Size, Least: 1, Meaning: "most bytes of a record batch that is written, before compression; a single larger record goes alone (default: 1000000)"},
	{Name: "max.request.size", In: InProducer, Kind: Size, Least: 1, Meaning: "bounds a record batch as batch.size does; the smaller one holds. A larger record is sent, and the broker decides"},
	milliseconds("delivery.timeout.ms", InProducer, 1, "the same as write-timeout"),

	fixed("acks", InProducer, "only all: nothing is committed before every in-sync replica has what was emitted", "all", "-1"),
	fixed("enable.idempotence", InProducer, "only true: repeats must not write twice", "true"),
	fixed("linger.ms", InProducer, "only 0: nothing lingers, a batch is what waits", "0"),
	fixed("enable.auto.commit", InConsumer, "only false: offsets are committed after what a batch emitted is confirmed", "false"),
	fixed("allow.auto.create.topics", InConsumer, "only false: reading never creates a topic", "false"),
	fixed("check.crcs", InConsumer, "only true: checksums are always checked", "true"),
	fixed("group.protocol", InConsumer, "only classic: membership is ours, with cooperative rebalances", "classic"),
},
	refused("it belongs beside the section, as bootstrap.servers at the top", "bootstrap.servers"),
	refused("records are read and written through brokers: name those, in bootstrap.servers at the top", "bootstrap.controllers"),
	refused("the group is group: at the inlet", "group.id"),
	refused("batches of any length keep their membership; batch-timeout bounds how long the process may take", "max.poll.interval.ms"),
	refused("batch.max-records bounds a batch", "max.poll.records"),
	refused("offsets are committed when they are confirmed, at most every 100 ms", "auto.commit.interval.ms"),
	refused("heartbeats follow session.timeout.ms", "heartbeat.interval.ms"),
	refused("prefetching is bounded at 64 MiB in all and 1 MiB a partition at once", "fetch.max.bytes", "max.partition.fetch.bytes", "fetch.min.bytes", "fetch.max.wait.ms", "receive.buffer.bytes", "send.buffer.bytes"),
	refused("records are read from the leaders", "client.rack"),
	refused("the streamlet gets keys and values as bytes and decodes them itself", "key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
	refused("no code of the Java client runs here", "interceptor.classes", "internal.throw.on.fetch.stable.offset.unsupported", "metric.reporters", "config.providers", "security.providers", "partitioner.class", "ssl.engine.factory.class", "ssl.provider", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class"),
	refused("keys choose their partition as Java's default does, and records without one are spread", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.rack.aware"),
	refused("writes are sent again until they are settled or delivery.timeout.ms is over", "retries"),
	refused("repeats wait as the delivery needs it; reconnect-max-backoff bounds the waits between conversations", "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
	refused("up to five are in flight for a partition, one until an epoch's first confirmation, and their order is kept", "max.in.flight.requests.per.connection"),
	refused("what is held is bounded by 64 MiB a batch and 256 MiB in all", "buffer.memory", "buffer.memory.allocation.strategy", "max.block.ms"),
	refused("there are no transactions: delivery is at least once", "transactional.id", "transaction.timeout.ms", "transaction.two.phase.commit.enable"),
	refused("the codecs run at their default level", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
	refused("every API has its own deadline; request.timeout.ms bounds a request", "default.api.timeout.ms"),
	refused("metadata is fresh where it is needed", "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "metadata.cluster.check.enable"),
	refused("idle connections close by themselves and open again", "connections.max.idle.ms", "socket.connection.setup.timeout.max.ms"),
	refused("every address of a name is tried", "client.dns.lookup", "bootstrap.resolve.timeout.ms"),
	refused("topics are named one by one", "exclude.internal.topics"),
	refused("group.protocol is classic here", "group.remote.assignor"),
	refused("a group is left at a stop, unless group.instance.id is set", "internal.leave.group.on.close"),
	refused("inlets read as consumer groups, not as share groups", "share.acknowledgement.mode", "share.acquire.mode"),
	refused("the figures are those of /metrics", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "enable.metrics.push", "auto.include.jmx.reporter"),
	refused("PEM files have no password; ssl.key.password is the key's", "ssl.truststore.password", "ssl.keystore.password"),
	refused("TLS 1.2 or later is negotiated, with Go's choice of ciphers", "ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
	refused("GSSAPI is not spoken; use PLAIN or SCRAM", "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
	refused("OAUTHBEARER is not spoken; use PLAIN or SCRAM", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.header.urlencode", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds",
		"sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer", "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
		"sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss", "sasl.oauthbearer.assertion.claim.jti.include",
		"sasl.oauthbearer.assertion.claim.nbf.seconds", "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
		"sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.template.file",
		"sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.jwt.retriever.class",
		"sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope"),
	refused("that is librdkafka's; Java's sasl.mechanism is read", "sasl.mechanisms"),
	refused("that is librdkafka's; write ssl.truststore.location (a file) or ssl.truststore.certificates (text)", "ssl.ca.location", "ssl.ca.pem"),
	refused("that is librdkafka's; write ssl.keystore.location (one file) or ssl.keystore.certificate.chain and ssl.keystore.key (text)", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem"),
	refused("that is librdkafka's; certificates are always checked", "enable.ssl.certificate.verification"),
	refused("that is librdkafka's; write compression.type", "compression.codec"),
)

func concat(lists ...[]JavaKey) []JavaKey {
	var all []JavaKey
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// javaKey finds a name; nil: it is unknown.
func javaKey(name string) *JavaKey {
	for i := range JavaKeys {
		if JavaKeys[i].Name == name {
			return &JavaKeys[i]
		}
	}
	return nil
}

// key is the row as a Key, for judge.
func (j *JavaKey) key() *Key {
	k := &Key{Kind: j.Kind, Choices: j.Choices, Least: j.Least, Empty: j.Empty, Secret: j.Secret}
	if j.Explain {
		k.Meaning = j.Meaning
	}
	if j.Kind == Duration { // a whole number of milliseconds
		k.Kind = Int
	}
	return k
}

// sections is where the name may stand, as "connection-config or consumer-config".
func (s Scope) sections() string {
	var names []string
	for _, one := range scopes {
		if s&one.scope != 0 {
			names = append(names, one.section)
		}
	}
	return choices(names)
}
