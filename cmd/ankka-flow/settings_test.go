package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/cmd/ankka-flow/config"
)

// Every global flag, and every flag of run, is a row of the table, with its text, its
// letter and its default; and every row's flag is there.
func TestFlagsAreSettings(t *testing.T) {
	root := newRoot(&app{})
	commands := map[string]*cobra.Command{}
	for _, cmd := range root.Commands() {
		commands[cmd.Name()] = cmd
	}
	check := func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "version" {
			return
		}
		key := config.KeyOfFlag(f.Name)
		if key == nil {
			t.Errorf("--%s is not in the table", f.Name)
			return
		}
		def := strings.Trim(f.DefValue, "[]")
		if f.Usage != key.Usage() || f.Shorthand != key.Short || def != key.Default {
			t.Errorf("--%s (-%s) is %q by default: %q; the table has -%s, %q, %q", f.Name, f.Shorthand, def, f.Usage, key.Short, key.Default, key.Usage())
		}
	}
	root.PersistentFlags().VisitAll(check)
	commands["run"].Flags().VisitAll(check)
	for i := range config.Keys {
		key := &config.Keys[i]
		if key.Flag == "" {
			continue
		}
		if key.Commands == nil && root.PersistentFlags().Lookup(key.Flag) == nil {
			t.Errorf("there is no global flag --%s", key.Flag)
		}
		for _, name := range key.Commands {
			if f := commands[name].Flag(key.Flag); f == nil || f.Usage != key.Usage() {
				t.Errorf("%s has no flag --%s with the table's text", name, key.Flag)
			}
		}
	}
}

// readTree adds every file below a folder.
func readTree(t *testing.T, dir string, to map[string]string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path) // both are absolute
		to[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check --offline says what is wrong on stdout, a line each, or that nothing is.
func TestCheckOffline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("good.yaml", "bootstrap.servers: k:1\n")
	put("bad.yaml", "pipelin: x\nbootstrap.servers: k\n")
	put("brokerless.yaml", "pipeline: x\n")
	put("badbrokerless.yaml", "pipelin: x\n")
	put("unset.yaml", "inlets: {in: {bootstrap.servers: '${UNSET}'}}\n")
	put("misspelt.yaml", "bootstrap.server: k:1\n")
	put("tab.yaml", "bootstrap.servers: k:1\n\tpipeline: x\n")
	const noBroker = " names no broker, and beside a configuration file the embedded one is not chosen by itself: set bootstrap.servers (or --brokers, FLOW_BROKERS), or ask for it with --embedded\n"
	for _, c := range []struct {
		args, env []string
		code      int
		stdout    string
	}{
		{[]string{"-c", "good.yaml"}, nil, 0, "ok config: good.yaml\n"},
		{nil, nil, 0, "ok config: flags and environment\n"},
		{[]string{"-c", "bad.yaml"}, []string{"FLOW_STOP_TIMEOUT=x"}, 2, "FAIL config: FLOW_STOP_TIMEOUT=\"x\": it is a duration of at least 1ms, such as 500ms, 30s or 5m\n" +
			"FAIL config: bad.yaml:1: pipelin: there is no such key; did you mean pipeline?\n" +
			"FAIL config: bad.yaml:2: bootstrap.servers: \"k\": a broker's address is host:port, such as kafka:9092\n"},
		{[]string{"-c", "brokerless.yaml"}, nil, 2, "FAIL config: brokerless.yaml" + noBroker},
		{[]string{"-c", "badbrokerless.yaml"}, nil, 2, "FAIL config: badbrokerless.yaml:1: pipelin: there is no such key; did you mean pipeline?\nFAIL config: badbrokerless.yaml" + noBroker},
		{[]string{"-c", "unset.yaml"}, nil, 2, "FAIL config: unset.yaml:1: inlets.in.bootstrap.servers: the environment has no variable UNSET; set it, or write ${UNSET:-default}\n"},
		{[]string{"-c", "misspelt.yaml"}, nil, 2, "FAIL config: misspelt.yaml:1: bootstrap.server: there is no such key; did you mean bootstrap.servers?\n"},
		{[]string{"-c", "tab.yaml"}, nil, 2, "FAIL config: tab.yaml:2: it is not YAML: found character '\t' that cannot start any token (indent with spaces)\n"},
		{[]string{"-c", "brokerless.yaml"}, []string{"FLOW_EMBEDDED=true"}, 0, "ok config: brokerless.yaml\n"},
		{[]string{"--log-level", "loud"}, nil, 2, "FAIL config: --log-level \"loud\": it is debug, info, warn or error\n"},
		{[]string{"-c", "brokerless.yaml", "-b", "k:1"}, nil, 0, "ok config: brokerless.yaml\n"},
	} {
		code, stdout, stderr := runProgram(t, programOptions{dir: dir, env: c.env}, append([]string{"check", "--offline"}, c.args...)...)
		if code != c.code || stdout != c.stdout || stderr != "" {
			t.Errorf("%v %v: exit code %d, stdout\n%sstderr\n%s", c.args, c.env, code, stdout, stderr)
		}
	}
}

// Beside a configuration file the embedded broker has to be asked for.
func TestEmbeddedBrokerBesideAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flow.yaml"), []byte("pipeline: shop\nmetrics-port: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := programOptions{dir: dir, env: caseEnv()}
	p := startProgram(t, o, "run", "-c", "flow.yaml", "--", "true")
	p.endsWith(2)
	p.says("flow.yaml", "names no broker", "--embedded")
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	p = startProgram(t, o, "--log-format", "text", "run", "-c", "flow.yaml", "--embedded", "--until-end", "--", "python3", script, filepath.Join(dir, "seen"))
	p.endsWith(0)
	p.says("created shop.in, shop.out")
}

// What only discovery shows to be wrong names the line of the file.
func TestRefusalNamesTheLineOfTheFile(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	path := filepath.Join(b.dir, "flow.yaml")
	if err := os.WriteFile(path, []byte("inlets:\n  in: {topic: case.in}\n  inn: {topic: x}\nmetrics-port: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	p := b.runCase(nil, []string{"-c", path}, []string{"python3", script, filepath.Join(b.dir, "seen")})
	p.endsWith(1)
	p.says("ERR refused", "flow.yaml:3 names", `"inn"`, "it has in")
}

// The Java client's names reach the brokers: what is asked of them, and how.
func TestJavaNamesReachTheBrokers(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.put(&kgo.Record{Value: []byte(strings.Repeat("v", 1000))})
	var mu sync.Mutex
	seen := map[string]any{}
	note := func(name string, value any) {
		mu.Lock()
		defer mu.Unlock()
		seen[name] = value
	}
	b.cluster.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		switch r := req.(type) {
		case *kmsg.JoinGroupRequest:
			note("group", r.Group)
			note("session", r.SessionTimeoutMillis)
			if r.InstanceID != nil {
				note("instance", *r.InstanceID)
			}
			var names []string
			for _, p := range r.Protocols {
				names = append(names, p.Name)
			}
			note("assignors", strings.Join(names, ","))
		case *kmsg.FetchRequest:
			note("isolation", r.IsolationLevel)
		case *kmsg.ProduceRequest:
			var batch kmsg.RecordBatch
			if err := batch.ReadFrom(r.Topics[0].Partitions[0].Records); err == nil {
				note("codec", batch.Attributes&7)
			}
		}
		return nil, nil, false
	})
	path := filepath.Join(b.dir, "flow.json")
	if err := os.WriteFile(path, []byte(`{"flow": {
	"pipeline": "case", "metrics-port": 0,
	"inlets": {"in": {"topic": "case.in", "group": "team", "consumer-config": {"group.instance.id": "pod-7", "session": {"timeout": {"ms": 9000}}}}},
	"topics": {"out": "case.out"},
	"consumer-config": {"isolation.level": "read_uncommitted", "partition.assignment.strategy": ["cooperative-sticky", "range"]},
	"producer-config": {"compression.type": "zstd"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, programOptions{dir: b.dir}, "run", "-c", path, "-b", b.address(), "--until-end", "--", "python3", script, filepath.Join(b.dir, "seen"))
	p.endsWith(0)
	mu.Lock()
	defer mu.Unlock()
	want := map[string]any{
		"group": "team", "session": int32(9000), "instance": "pod-7", "assignors": "cooperative-sticky,range",
		"isolation": int8(0), "codec": int16(4),
	}
	for name, value := range want {
		if seen[name] != value {
			t.Errorf("%s: %v, want %v", name, seen[name], value)
		}
	}
}
