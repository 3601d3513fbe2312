package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every case is a file, and the problems it has: line and words of each. All are
// reported at once.
func TestProblemsOfAFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		env        []string
		want       []string
	}{
		{
			"many at once", "pipline: x\nstop-timeout: soon\ninlets:\n  in:\n    topik: a\n    topic: a b\nmetrics-port: 99999\n", nil,
			[]string{
				":1: pipline: there is no such key; did you mean pipeline?", `:2: stop-timeout: "soon": it is a duration of at least 1ms, such as`,
				":5: inlets.in.topik: there is no such key; did you mean topic?", `:6: inlets.in.topic: "a b": it is not a topic's name: it has ' '`, `:7: metrics-port: "99999": it is a port`,
			},
		},
		{"a duration without a unit", "stop-timeout: 25", nil, []string{`"25": it is a duration`}},
		{"a Java name with a letter too few", "consumer-config: {sesion.timeout.ms: 1}", nil, []string{":1: consumer-config.sesion.timeout.ms: there is no such key; did you mean session.timeout.ms?"}},
		{"a Java name of nobody", "consumer-config: {made.up: 1}", nil, []string{":1: consumer-config.made.up: there is no such key"}},
		{"Java names outside their section", "session.timeout.ms: 1\nsasl.password: x\nssl.ca.location: x\ninlets: {a: {auto.offset.reset: latest}}", nil, []string{
			":1: session.timeout.ms: there is no such key; it is a name of the Java client's, and belongs in consumer-config", ":2: sasl.password: there is no such key; it is a name of the Java client's, and belongs in connection-config",
			":3: ssl.ca.location: there is no such key, and in a section of the Java client's names neither: that is librdkafka's; write ssl.truststore.location", ":4: inlets.a.auto.offset.reset: there is no such key; it is a name of the Java client's, and belongs in consumer-config",
		}},
		{"a broker that is not known yet", "bootstrap.servers: ${NOPE}\nconnection-config: {security.protocol: SSL}", nil, []string{":1: bootstrap.servers: the environment has no variable NOPE"}},
		{"another spelling", "batch: {maxRecords: 5}", nil, []string{"batch.maxRecords: there is no such key; did you mean max-records?"}},
		{"a section's name", "inlts:\n  in: {topic: a}\n  b: {topic: a}", nil, []string{":2: inlts: there is no such key; did you mean inlets?"}},
		{"nothing near", "zzzzzzzzzzzzzzzzzzzz: 1", nil, []string{": there is no such key"}},
		{"given twice", "pipeline: a\npipeline: b\nbatch.max-records: 1\nbatch: {max-records: 2}", nil, []string{":2: pipeline is given twice, first in line 1", ":4: batch.max-records is given twice, first in line 3"}},
		{"a list for a text", "pipeline: [a, b]\ninlets: {in: {topic: [x]}}", nil, []string{":1: pipeline: it is one text, no list", ":2: inlets.in.topic: it is one text"}},
		{"a map for a text", "pipeline: {name: x}", nil, []string{":1: pipeline: it has one value and no keys below it"}},
		{"a text for a map", "inlets: orders\nconnection-config: SSL\nbatch: 5", nil, []string{":1: inlets: it has keys below it, such as `in: {topic: orders}`", ":2: connection-config: it has keys below it", ":3: batch: it has keys"}},
		{"a port without keys", "inlets: {in: orders}", nil, []string{":1: inlets.in: it has keys below it, such as `topic: orders`"}},
		{"a list of maps", "inlets: [{topic: a}]", nil, []string{":1: inlets: a list of plain values is read"}},
		{"no value", "pipeline:\ninlets:\nbatch: {}\nmetrics-port: ''", nil, []string{":1: pipeline: it has no value", `:4: metrics-port: "": it is empty`}},
		{"a number", "batch: {max-records: many, max-bytes: -1}", nil, []string{`max-records: "many": it is a whole number, at least 1`, `max-bytes: "-1": it is a size`}},
		{"a boolean", "watch: yes", nil, []string{`watch: "yes": it is true or false`}},
		{"a choice", "log-format: xml\nproducer-config: {compression.type: brotli}", nil, []string{`"xml": it is auto, text or json`, `"brotli": it is none, gzip, snappy, lz4 or zstd`}},
		{"an address", "bootstrap.servers: [kafka, 'SSL://k:1', 'k:1']", nil, []string{`"kafka,SSL://k:1,k:1": a broker's address is host:port`}},
		{"no YAML", "pipeline: a\n  b: c", nil, []string{":1: it is not YAML: mapping value is not allowed"}},
		{"a tab", "inlets:\n\tin: {}", nil, []string{":2: it is not YAML"}},
		{"no map", "- a", nil, []string{":1: the file is no map"}},
		{"two documents", "pipeline: a\n---\npipeline: b", nil, []string{":3: a second document"}},
		{"a tag", "pipeline: !!binary aGVsbG8=", nil, []string{":1: pipeline: this form of YAML is not read"}},
		{"no anchor", "pipeline: *x", nil, []string{":1: pipeline: a value that begins with * is an alias"}},
		{"a key of two lines", "\"a\\nb\": 1", nil, []string{":1: the file: a key that is no plain text"}},
		{"a bomb", "a: &a [x]\n" + bomb(), nil, []string{": the file is nested or repeats itself too much"}},
		{"beside flow", "flow: {pipeline: a}\nbatch: {max-records: 1}", nil, []string{":2: batch.max-records stands beside the root key flow"}},
		{"an unset variable", "pipeline: ${NOPE}\nconfig: {a: '${NO_A} ${NO_B}'}", nil, []string{":1: pipeline: the environment has no variable NOPE; set it, or write ${NOPE:-default}", "NO_A", "NO_B"}},
		{"no variable's name", "pipeline: ${a b}\nstreamlet: ${?X}\ntrace: ${X", nil, []string{":1: pipeline: ${...} has no variable's name in it; write ${NAME}", ":2: streamlet: ${...} has no variable's name in it; write ${X:-}", ":3: trace: ${ has no }"}},
		{"no file of a secret", "connection-config: {sasl.password-file: none}", nil, []string{":1: connection-config.sasl.password-file: ", ""}[:1]},
		{"twice, also as a file", "pipeline: a\npipeline-file: /dev/null", nil, []string{":2: pipeline-file is also set in line 1"}},
		{"a port's name", "inlets: {In: {topic: a}}", nil, []string{":1: inlets.In: a port's name has lower-case letters"}},
		{"an inlet and an outlet", "inlets: {a: {topic: x}}\noutlets: {a: {topic: x}}", nil, []string{":2: a is an inlet and an outlet"}},
		{"two topics", "topics: {a: x}\ninlets: {a: {topic: y}}", nil, []string{":2: port a has another topic in line 1"}},
		{"what an inlet does not have", "inlets: {a: {producer-config: {acks: all}}}\noutlets: {b: {group: g}}", nil, []string{":1: inlets.a.producer-config: there is no such key; an inlet only reads", ":2: outlets.b.group: there is no such key; an outlet only writes"}},
		{"two clusters", "bootstrap.servers: a:1\ninlets: {a: {bootstrap.servers: a:1}, b: {bootstrap.servers: b:1}}", nil, []string{`:2: inlets.b.bootstrap.servers: it differs from bootstrap.servers (`}},
		{"two clusters of ports", "inlets:\n  a: {bootstrap.servers: a:1}\noutlets:\n  b: {bootstrap.servers: b:1}", nil, []string{`:4: outlets.b.bootstrap.servers: it differs from inlets.a.bootstrap.servers (`}},
		{"two connections", "bootstrap.servers: a:1\ninlets:\n  a:\n    connection-config: {client.id: x}\n  b:\n    connection-config: {client.id: y}", nil, []string{":6: inlets.b.connection-config: client.id differs"}},
		{"two producers", "outlets:\n  a:\n    producer-config: {batch.size: 1}\n  b:\n    producer-config: {batch.size: 2}", nil, []string{":5: outlets.b.producer-config: batch.size differs"}},
		{"two write timeouts", "write-timeout: 5s\nproducer-config: {delivery.timeout.ms: 6000}", nil, []string{":2: delivery.timeout.ms differs from write-timeout (line 1)"}},
		{"two client ids", "inlets: {a: {client-id: x, consumer-config: {client.id: y}}}", nil, []string{":1: inlets.a: client.id differs from the inlet's client-id"}},
		{"an assignor", "consumer-config: {partition.assignment.strategy: org.apache.kafka.clients.consumer.StickyAssignor}", nil, []string{"it is cooperative-sticky, range or both"}},
		{"no broker", "connection-config: {security.protocol: SSL}", nil, []string{":1: connection-config: it says how to connect, but no broker is named"}},
		{"SASL without SASL", "bootstrap.servers: a:1\nconnection-config:\n  sasl.username: u\n  sasl.password: p\n  sasl.mechanism: PLAIN", nil, []string{":5: connection-config: security.protocol: it is PLAINTEXT, which does not use SASL"}},
		{"no PEM file", "bootstrap.servers: a:1\nconnection-config:\n  security.protocol: SSL\n  ssl.truststore.location: none.pem", nil, []string{`:4: ssl.truststore.location: "`}},
		{"a keystore of Java", "bootstrap.servers: a:1\nconnection-config: {security.protocol: SSL, ssl.truststore.type: JKS}", nil, []string{`:2: connection-config.ssl.truststore.type: "JKS": it is PEM`}},
		{"a login module", "bootstrap.servers: a:1\nconnection-config:\n  security.protocol: SASL_SSL\n  sasl.mechanism: PLAIN\n  sasl.jaas.config: 'x.IAMLoginModule required;'", nil, []string{":5: sasl.jaas.config: the login module IAMLoginModule is not known"}},
		{"another login module", "bootstrap.servers: a:1\nconnection-config:\n  security.protocol: SASL_SSL\n  sasl.mechanism: PLAIN\n  sasl.jaas.config: 'x.ScramLoginModule required username=a password=b;'", nil, []string{":5: sasl.jaas.config: its login module is not that of sasl.mechanism PLAIN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := loadFile(t, c.text, c.env...)
			expect(t, err, c.want...)
		})
	}
}

// bomb doubles a list nine times a line, as the laughs do.
func bomb() string {
	var b strings.Builder
	for i := 1; i < 12; i++ {
		prev, name := 'a'+rune(i-1), 'a'+rune(i)
		fmt.Fprintf(&b, "%c: &%c {", name, name)
		for j := range 9 {
			fmt.Fprintf(&b, "k%d: *%c, ", j, prev)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// Each name of the Java client is honoured in a section, or refused there; none is
// taken and forgotten.
func TestJavaNamesAreHonouredOrRefused(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, j := range JavaKeys {
		if seen[j.Name] {
			t.Errorf("%s is in the table twice", j.Name)
		}
		seen[j.Name] = true
		for _, one := range scopes {
			_, err := loadFile(t, one.section+": {"+j.Name+": 'no such value'}")
			got := fmt.Sprint(err)
			switch {
			case j.In == 0:
				if !strings.Contains(got, j.Name+": it is not supported: "+j.Meaning) {
					t.Errorf("%s in %s: %v", j.Name, one.section, err)
				}
			case j.In&one.scope == 0:
				if !strings.Contains(got, "it belongs in "+j.In.sections()) {
					t.Errorf("%s in %s: %v", j.Name, one.section, err)
				}
			case strings.Contains(got, "no such key") || strings.Contains(got, "it belongs in") || strings.Contains(got, "not supported"):
				t.Errorf("%s in %s: %v", j.Name, one.section, err)
			}
		}
	}
	_, err := loadFile(t, "producer-config: {acks: 1, enable.idempotence: false}\nconsumer-config: {enable.auto.commit: true, max.poll.interval.ms: 1}")
	expect(t, err, `acks: "1": it is all or -1 here (only all: nothing is committed before`, `enable.idempotence: "false": it is true`, `enable.auto.commit: "true": it is false`, "batch-timeout bounds how long")
}

// The table has every name that the Java client has.
func TestJavaNamesAreComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "java-client-4.4.0.txt"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, name := range strings.Fields(strings.SplitN(string(text), "\n", 2)[1]) {
		if count++; javaKey(name) == nil {
			t.Errorf("%s is not in the table", name)
		}
	}
	if count < 147 {
		t.Errorf("the list has %d names", count)
	}
}

func TestFindingTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	load := func(env ...string) error {
		_, err := Load(Input{Command: "run", Environ: env})
		return err
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, load("FLOW_CONFIG_DIR="+dir), "has none of flow.yaml, flow.yml, flow.json")
	put("streamlet.conf", "")
	expect(t, load("FLOW_CONFIG_DIR="+dir), "streamlet.conf, but HOCON is not read")
	expect(t, load("FLOW_CONFIG="+filepath.Join(dir, "streamlet.conf")), ":1: HOCON is not read")
	expect(t, load("FLOW_CONFIG="+filepath.Join(dir, "none")), "none\": no such file")
	put("flow.json", "{\n  \"pipeline\": 'a'\n}")
	expect(t, load("FLOW_CONFIG_DIR="+dir), "flow.json:2: it is not JSON")
	put("flow.yaml", "pipeline: a")
	expect(t, load("FLOW_CONFIG_DIR="+dir), "flow.yaml and flow.json; keep one")
	if err := load("FLOW_CONFIG_DIR="+dir, "FLOW_CONFIG="+filepath.Join(dir, "flow.yaml")); err != nil {
		t.Errorf("a named file beside a folder: %v", err)
	}
	expect(t, load("FLOW_CONFIG_DIR="+filepath.Join(dir, "none")), "no such file")
	put("large.yaml", strings.Repeat("#", maxFile+1))
	expect(t, load("FLOW_CONFIG="+filepath.Join(dir, "large.yaml")), "larger than 4 MiB")
}

func TestProblemsOfFlagsAndVariables(t *testing.T) {
	t.Parallel()
	_, err := Load(Input{
		Command: "run",
		Flags:   map[string][]string{"topic": {"in", "a=x y", "b=1", "b=2"}, "param": {"x", "=y"}, "log-level": {"loud"}, "brokers": {"localhost"}},
		Environ: []string{"FLOW_STOP_TIMEOUT=x", "FLOW_WRITE_TIMEOUT=-1s", "FLOW_UNTIL_END=maybe", "FLOW_RECONECT_MAX_BACKOFF=1s", "FLOW_INPUT=in", "FLOWER=x"},
	})
	expect(t, err,
		`--topic "in": it has the form PORT=TOPIC`, `--topic a: "x y": it is not a topic's name`, "--topic b is given twice", "--param ***: it has the form KEY=VALUE", "--param \"=***\"",
		`--log-level "loud": it is debug, info, warn or error`, `--brokers "localhost": a broker's address is host:port`,
		`FLOW_STOP_TIMEOUT="x": it is a duration`, `FLOW_WRITE_TIMEOUT="-1s"`, `FLOW_UNTIL_END="maybe": it is true or false`,
		"FLOW_RECONECT_MAX_BACKOFF: there is no such setting; did you mean FLOW_RECONNECT_MAX_BACKOFF?", `FLOW_INPUT "in": it has the form INLET=FILE`,
	)
}

func TestJAAS(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]jaas{
		`org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";`:             {false, "a", "b"},
		"org.apache.kafka.common.security.scram.ScramLoginModule\n  REQUIRED\n  username='a b' password='x;=y' ;": {true, "a b", "x;=y"},
		`PlainLoginModule required password="q\"\\" username=u;`:                                                  {false, "u", `q"\`},
	} {
		if got, problem := parseJAAS(line); got != want || problem != "" {
			t.Errorf("%s: %+v, %q", line, got, problem)
		}
	}
	for line, want := range map[string]string{
		"": "semicolon", "hunter2": "semicolon", "hunter2;": "has the form", "hunter2 hunter2;": "begins with a login module",
		`PlainLoginModule required username="a";`:                               "needs username and password",
		`PlainLoginModule required username="a" password="hunter2`:              "quote",
		`PlainLoginModule required username="a" password="b" hunter2="x";`:      "an option besides",
		`PlainLoginModule required username="a" password="b"; hunter2`:          "behind its semicolon",
		`PlainLoginModule username="a" password="hunter2";`:                     "`required`",
		`PlainLoginModule required username="a" username="b" password="c";`:     "twice",
		`PlainLoginModule required username = "hunter2" password = "hunter2" ;`: "NAME=",
	} {
		_, problem := parseJAAS(line)
		if !strings.Contains(problem, want) || strings.Contains(problem, "hunter2") {
			t.Errorf("%s: %q, want %q", line, problem, want)
		}
	}
}
