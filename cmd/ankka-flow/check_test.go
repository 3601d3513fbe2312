package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// checked is a guarded cluster whose user "flow" has some rights, and a folder with a
// configuration that connects as it.
type checked struct {
	t     *testing.T
	admin *kadm.Client
	o     programOptions
}

func newChecked(t *testing.T, password string, topics []string, acls ...kfake.ACL) *checked {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "flow", "right", acls...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(plain.Auth{User: "admin", Pass: "admin"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	dir := t.TempDir()
	text := fmt.Sprintf(`
bootstrap.servers: %s
connection-config: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: flow, sasl.password: %s}
`, cluster.ListenAddrs()[0], password)
	if err := os.WriteFile(filepath.Join(dir, "flow.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &checked{t: t, admin: kadm.NewClient(client), o: programOptions{dir: dir, env: caseEnv("FLOW_CONFIG_DIR=" + dir)}}
}

// state is everything on the cluster that a check could have changed.
func (c *checked) state() string {
	c.t.Helper()
	topics, err := c.admin.ListTopics(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	groups, err := c.admin.ListGroups(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	ends, err := c.admin.ListEndOffsets(c.t.Context(), topics.Names()...)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprint(topics.Names(), groups.Groups(), ends.Offsets())
}

func allow(kind kmsg.ACLResourceType, name string, operations ...kmsg.ACLOperation) (acls []kfake.ACL) {
	for _, operation := range operations {
		acls = append(acls, kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true})
	}
	return acls
}

// Every kind of thing that can be wrong, each said in its line with the remedy, and
// exit code 1; where nothing is, every line is ok. Nothing on the cluster changes.
func TestCheck(t *testing.T) {
	t.Parallel()
	read := allow(kmsg.ACLResourceTypeTopic, caseIn, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe)
	written := allow(kmsg.ACLResourceTypeTopic, caseOut, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe)
	group := allow(kmsg.ACLResourceTypeGroup, caseGroup, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe)
	all := slices.Concat(read, written, group)
	both := []string{caseIn, caseOut}
	good := []string{"ok config: ", "ok broker: ", "ok topics: case.in (1 partitions), case.out (1 partitions)", "ok permissions: ", "ok process: case: in -> out"}
	for _, c := range []struct {
		name, password string
		topics         []string
		acls           []kfake.ACL
		command        []string
		descriptor     string
		code           int
		want           []string
	}{
		{"everything", "right", both, all, nil, "", 0, good},
		{"the descriptor too", "right", both, all, nil, "case", 0, append(slices.Clone(good), "ok descriptor: ")},
		{"a wrong password", "wrong", both, all, nil, "", 1, []string{"ok config: ", "FAIL broker: *sasl.password", "ok process: "}},
		{"a missing topic", "right", []string{caseIn}, all, nil, "", 1, []string{"ok config: ", "ok broker: ", "FAIL topics: *case.out*ankka-flow topics create", "ok topics: case.in", "ok permissions: ", "ok process: "}},
		{"no right to write", "right", both, slices.Concat(read, group, allow(kmsg.ACLResourceTypeTopic, caseOut, kmsg.ACLOperationDescribe)), nil, "", 1,
			[]string{"ok config: ", "ok broker: ", "ok topics: ", "FAIL permissions: User:flow needs WRITE on topic case.out: kafka-acls --add", "ok process: "}},
		{"no rights at all", "right", both, nil, nil, "", 1,
			[]string{"ok config: ", "ok broker: ", "FAIL permissions: *READ on topic case.in", "FAIL permissions: *WRITE on topic case.out", "FAIL permissions: *READ on group " + caseGroup, "ok process: "}},
		{"another descriptor", "right", both, all, nil, "other", 1, append(slices.Clone(good), "FAIL descriptor: *other")},
		{"no such program", "right", both, all, []string{"./no-such-program"}, "", 1, []string{"ok config: ", "ok broker: ", "FAIL process: *no-such-program"}},
		{"a program that is no streamlet", "right", both, all, []string{"true"}, "", 1, []string{"ok config: ", "ok broker: ", "FAIL process: *exit 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newChecked(t, c.password, c.topics, c.acls...)
			before := k.state()
			command := c.command
			if command == nil {
				command = misbehaves(t, "good")
			}
			if c.descriptor != "" {
				k.deploy(command, c.descriptor)
			}
			code, stdout, _ := runProgram(t, k.o, append([]string{"check", "--"}, command...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("want %d lines: %q", len(c.want), lines)
			}
			for i, want := range c.want {
				begin, rest, _ := strings.Cut(want, "*")
				for _, word := range strings.Split(rest, "*") {
					if !strings.HasPrefix(lines[i], begin) || !strings.Contains(lines[i], word) {
						t.Errorf("line %d is %q, want %q", i, lines[i], want)
					}
				}
			}
			if after := k.state(); after != before {
				t.Errorf("the cluster was %s and is %s", before, after)
			}
		})
	}
}

// deploy writes the command's descriptor under another name of the streamlet.
func (c *checked) deploy(command []string, name string) {
	c.t.Helper()
	code, text, _ := runProgram(c.t, programOptions{dir: c.o.dir}, append([]string{"descriptor", "--"}, command...)...)
	if code != 0 {
		c.t.Fatalf("descriptor: %d", code)
	}
	file := filepath.Join(c.o.dir, "descriptor.json")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, `"case"`, `"`+name+`"`)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.o.env = append(c.o.env, "FLOW_DESCRIPTOR="+file)
}

// Without any configuration it speaks of the embedded broker, and starts none.
func TestCheck_Embedded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, stdout, _ := runProgram(t, programOptions{dir: dir}, append([]string{"check", "--"}, misbehaves(t, "good")...)...)
	if code != 0 || !strings.Contains(stdout, "ok broker: the embedded one") || strings.Contains(stdout, "FAIL") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
