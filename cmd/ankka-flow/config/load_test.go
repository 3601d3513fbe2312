package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"ankka-flow/delivery"
	flowkafka "ankka-flow/delivery/kafka"
)

// write puts a file into a folder of its own and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loadFile loads a file's text for run, with an environment.
func loadFile(t *testing.T, text string, environ ...string) (*Settings, error) {
	t.Helper()
	path := write(t, "flow.yaml", text)
	return Load(Input{Command: "run", Flags: map[string][]string{"config": {path}}, Environ: environ})
}

// mustLoad is loadFile without problems.
func mustLoad(t *testing.T, text string, environ ...string) *Settings {
	t.Helper()
	s, err := loadFile(t, text, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const everything = `
bootstrap.servers: kafka-1:9092, kafka-2:9092
pipeline: shop
streamlet: router
descriptor: deployed.json
config:
  threshold: 007
  ratio: 1.10
  flag: true
  empty: ""
errors:
  retry.timeout: 60000
  deadletterqueue.topic.name: ""
batch: {max-records: 50, max-bytes: 512 KiB}
connection-config:
  client.id: shop
  request.timeout.ms: 5000
  socket.connection.setup.timeout.ms: 700
consumer-config:
  session.timeout.ms: 30000
  isolation.level: read_uncommitted
producer-config:
  compression.type: zstd
  batch.size: 2000000
  max.request.size: 500000
  acks: all
  delivery.timeout.ms: 60000
inlets:
  in:
    topic: orders
    group: routers
    client-id: router-in
    batch.max-bytes: 2000
    consumer-config:
      auto.offset.reset: latest
      group.instance.id: a
      partition.assignment.strategy: [org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range]
outlets:
  valid: {topic: valid-orders, client-id: router-out}
stop-timeout: 5 seconds
stall-warning-after: 1m30s
metrics-port: 0
state-dir: state
log-level: debug
watch-path: [src, ../lib]
`

func TestEveryKindOfKeyOfAFile(t *testing.T) {
	check := func(t *testing.T, s *Settings) {
		dir := filepath.Dir(s.File)
		for name, pair := range map[string][2]any{
			"brokers":          {s.Brokers, []string{"kafka-1:9092", "kafka-2:9092"}},
			"names":            {[]string{s.Pipeline, s.Streamlet}, []string{"shop", "router"}},
			"descriptor":       {s.Descriptor, filepath.Join(dir, "deployed.json")},
			"params":           {s.PlainParams(), map[string]string{"threshold": "007", "ratio": "1.10", "flag": "true", "empty": ""}},
			"errors":           {s.Errors, map[string]string{"retry.timeout": "60000", "deadletterqueue.topic.name": ""}},
			"batch":            {[]int{s.MaxRecords, s.MaxBytes}, []int{50, 512 << 10}},
			"an inlet's batch": {s.Batches, map[string]delivery.BatchLimit{"in": {MaxBytes: 2000}}},
			"connection":       {[]any{s.ClientID, s.RequestTimeout, s.DialTimeout}, []any{"shop", 5 * time.Second, 700 * time.Millisecond}},
			"consumer":         {s.Inlet("other"), Consumer{SessionTimeout: 30 * time.Second, ReadUncommitted: true}},
			"inlet": {s.Inlet("in"), Consumer{
				ClientID: "router-in", InstanceID: "a", SessionTimeout: 30 * time.Second, ReadUncommitted: true,
				Assignors: []string{"cooperative-sticky", "range"}, StartLatest: true, Reset: flowkafka.ResetLatest,
			}},
			"producer":   {s.Producer, Producer{Compression: kafka.Zstd, MaxBatchBytes: 500_000}},
			"topics":     {s.Topics, map[string]string{"in": "orders", "valid": "valid-orders"}},
			"groups":     {s.Groups, map[string]string{"in": "routers"}},
			"client ids": {s.ClientIDs, map[string]string{"in": "router-in", "valid": "router-out"}},
			"timings": {s.Timings, Timings{
				ReconnectMax: 30 * time.Second, Discovery: time.Minute, Process: time.Minute, Stop: 5 * time.Second,
				Write: time.Minute, Stall: 90 * time.Second,
			}},
			"others": {[]any{s.MetricsPort, s.StateDir, s.LogLevel, s.LogFormat}, []any{0, filepath.Join(dir, "state"), "debug", "auto"}},
			"watch":  {s.WatchPaths, []string{filepath.Join(dir, "src"), filepath.Join(filepath.Dir(dir), "lib")}},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s: %+v, want %+v", name, pair[0], pair[1])
			}
		}
	}
	t.Run("YAML", func(t *testing.T) { check(t, mustLoad(t, everything)) })
	t.Run("below the root key flow", func(t *testing.T) {
		check(t, mustLoad(t, "flow:\n"+strings.ReplaceAll(everything, "\n", "\n  ")))
	})
	t.Run("Windows' line ends", func(t *testing.T) { check(t, mustLoad(t, strings.ReplaceAll(everything, "\n", "\r\n"))) })
	t.Run("as printed", func(t *testing.T) {
		s := mustLoad(t, everything)
		path := filepath.Join(filepath.Dir(s.File), "flow.yml")
		if err := os.WriteFile(path, []byte(s.Print()), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Load(Input{Command: "run", Flags: map[string][]string{"config": {path}}})
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Print())
		}
		check(t, again)
	})
}

func TestDottedAndNestedKeysAreTheSame(t *testing.T) {
	a := mustLoad(t, "bootstrap.servers: [k:1, 'k:2']\ninlets.in.topic: orders\nbatch.max-records: 5\nconnection-config.client.id: x\n")
	path := write(t, "flow.json", "{\n\t\"flow\": {\"bootstrap\": {\"servers\": [\"k:1\", \"k:2\"]},\n\t\"inlets\": {\"in\": {\"topic\": \"orders\"}}, \"batch\": {\"max-records\": 5}, \"connection-config\": {\"client\": {\"id\": \"x\"}}}}")
	b, err := Load(Input{Command: "run", Environ: []string{"FLOW_CONFIG_DIR=" + filepath.Dir(path)}})
	if err != nil {
		t.Fatal(err)
	}
	a.File, b.File, a.loaded, b.loaded = "", "", nil, nil
	a.Ports, b.Ports = nil, nil
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	s := mustLoad(t, "inlets:\n  a: &base\n    topic: &t orders\n    group: g\n  b:\n    <<: *base\n    group: other\n  c: {topic: *t}\n")
	if want := map[string]string{"a": "orders", "b": "orders", "c": "orders"}; !reflect.DeepEqual(s.Topics, want) {
		t.Errorf("topics %v, want %v", s.Topics, want)
	}
	if want := map[string]string{"a": "g", "b": "other"}; !reflect.DeepEqual(s.Groups, want) {
		t.Errorf("groups %v, want %v", s.Groups, want)
	}
}

// Flags over environment over file over defaults, key by key.
func TestPrecedence(t *testing.T) {
	path := write(t, "flow.yaml", "pipeline: file\nlog-level: warn\nlog-format: json\nstop-timeout: 5s\nsession-timeout: 7s\n"+
		"bootstrap.servers: file:1\ninlets: {a: {topic: fa}, b: {topic: fb}, c: {topic: fc}}\nconfig: {x: fx, y: fy}\nconsumer-config: {session.timeout.ms: 7000}\n")
	s, err := Load(Input{
		Command: "run",
		Flags: map[string][]string{
			"config": {path}, "pipeline": {"flag"}, "topic": {"a=flag-a"}, "param": {"x=flag=x", "z="}, "brokers": {"flag:1,flag:2"}, "embedded": {"false"},
		},
		Environ: []string{"FLOW_PIPELINE=environment", "FLOW_LOG_LEVEL=error", "FLOW_STOP_TIMEOUT=", "FLOW_TOPIC=nonsense", "FLOW_INPUT=a=x\nb=y", "FLOW_WATCH=1", "FLOW_SESSION_TIMEOUT=9s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]any{
		"flag":                      {s.Pipeline, "flag"},
		"environment":               {s.LogLevel, "error"},
		"file":                      {s.LogFormat, "json"},
		"default":                   {s.Color, "auto"},
		"an empty variable is none": {s.Timings.Stop, 5 * time.Second},
		"topics":                    {s.Topics, map[string]string{"a": "flag-a", "b": "fb", "c": "fc"}},
		"params":                    {s.PlainParams(), map[string]string{"x": "flag=x", "y": "fy", "z": ""}},
		"brokers":                   {s.Brokers, []string{"flag:1", "flag:2"}},
		"watch":                     {s.Watch, true},
		"session":                   {s.Consumer.SessionTimeout, 9 * time.Second},
		"untouched":                 {s.Timings.Discovery, time.Minute},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
	out := s.Print()
	for _, want := range []string{
		`pipeline: "flag"  # --pipeline`, `log-level: "error"  # FLOW_LOG_LEVEL`, `log-format: "json"  # ` + path + ":3", `color: "auto"  # default`,
		`# --config: "` + path + `"  # --config`, `input: "y"  # FLOW_INPUT`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("--print-config lacks %q:\n%s", want, out)
		}
	}
}

func TestInterpolation(t *testing.T) {
	t.Parallel()
	secret := write(t, "secret", "s3cret\r\n")
	env := []string{"HOST=kafka", "EMPTY=", "N=12", "HOME=/home/x", `QUOTES=a"b\c;d`, "SECRET_FILE=" + secret}
	s := mustLoad(t, `
bootstrap.servers: ${HOST}:${PORT:-9092}
pipeline: ${EMPTY:-shop}
batch: {max-records: "${N}"}
config:
  literal: a$b $$ $${HOST} ${HOST}
  fromfile: {file: "${SECRET_FILE}"}
  ends-in-file: x
  data-file: y
  home: ${HOME}
inlets: {in: {topic-file: "`+secret+`"}}
connection-config:
  security.protocol: sasl_plaintext
  sasl.mechanism: PLAIN
  sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="${QUOTES}";
`, env...)
	if want := []string{"kafka:9092"}; !reflect.DeepEqual(s.Brokers, want) {
		t.Errorf("brokers %v, want %v", s.Brokers, want)
	}
	want := map[string]string{"literal": "a$b $ ${HOST} kafka", "fromfile": "s3cret", "ends-in-file": "x", "data-file": "y", "home": "/home/x"}
	if got := s.PlainParams(); !reflect.DeepEqual(got, want) {
		t.Errorf("params %v, want %v", got, want)
	}
	if s.Pipeline != "shop" || s.MaxRecords != 12 || s.Topics["in"] != "s3cret" || s.Security.Password != `a"b\c;d` {
		t.Errorf("pipeline %q, max-records %d, topic %q, password %q", s.Pipeline, s.MaxRecords, s.Topics["in"], s.Security.Password)
	}
	if want := []string{"EMPTY", "HOST", "N", "PORT", "QUOTES", "SECRET_FILE"}; !slices.Equal(s.Hidden, want) {
		t.Errorf("hidden %v, want %v", s.Hidden, want)
	}
}

func TestEmbeddedAgainstBrokers(t *testing.T) {
	t.Parallel()
	file := write(t, "flow.yaml", "bootstrap.servers: k:1\nconnection-config: {security.protocol: SSL}\n")
	s, err := Load(Input{Command: "run", Flags: map[string][]string{"config": {file}, "embedded": {"true"}}})
	if err != nil || !s.Embedded || s.Brokers != nil || s.TLS != nil {
		t.Errorf("--embedded over a file: %+v, %v", s, err)
	}
	s, err = Load(Input{Command: "run", Flags: map[string][]string{"brokers": {"k:1"}}, Environ: []string{"FLOW_EMBEDDED=true"}})
	if err != nil || s.Embedded || len(s.Brokers) != 1 {
		t.Errorf("--brokers over FLOW_EMBEDDED: %+v, %v", s, err)
	}
	_, err = Load(Input{Command: "run", Flags: map[string][]string{"brokers": {"k:1"}, "embedded": {"true"}}})
	expect(t, err, "--embedded and --brokers name two brokers")
}

// A flag that a command does not have is not read from the environment: topic is
// another thing for broker.
func TestVariablesOfOtherCommands(t *testing.T) {
	t.Parallel()
	s, err := Load(Input{Command: "broker", Environ: []string{"FLOW_TOPIC=orders:3", "FLOW_UNTIL_END=maybe", "FLOW_LISTEN=:1", "FLOW_LOG_LEVEL=warn"}, Variables: []string{"FLOW_LISTEN"}})
	if err != nil || s.LogLevel != "warn" || len(s.Topics) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestServiceLinksOfKubernetes(t *testing.T) {
	t.Parallel()
	env := []string{"FLOW_SERVICE_HOST=10.0.0.1", "FLOW_PORT_80_TCP_ADDR=10.0.0.1", "FLOW_METRICS_SERVICE_PORT_HTTP=80"}
	linked := append(env, "KUBERNETES_SERVICE_HOST=10.0.0.2", "FLOW_METRICS_PORT=tcp://10.0.0.1:80")
	if s, err := Load(Input{Command: "run", Environ: linked}); err != nil || s.MetricsPort != 2050 {
		t.Errorf("%+v, %v", s, err)
	}
	_, err := Load(Input{Command: "run", Environ: env})
	expect(t, err, "FLOW_SERVICE_HOST: there is no such setting", "FLOW_PORT_80_TCP_ADDR", "FLOW_METRICS_SERVICE_PORT_HTTP")
}

// expect fails unless each line of an error has its words, and there are no more.
func expect(t *testing.T, err error, lines ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", lines)
	}
	got := strings.Split(err.Error(), "\n")
	for _, want := range lines {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("no line has %q in:\n%v", want, err)
		}
	}
	if len(got) != len(lines) {
		t.Errorf("%d problems, want %d:\n%v", len(got), len(lines), err)
	}
}
