package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// command runs a command of topics or groups on the broker.
func (b *caseBroker) command(code int, args ...string) (*program, string) {
	b.t.Helper()
	p := startProgram(b.t, programOptions{dir: b.dir}, append(args, "-b", b.address())...)
	p.endsWith(code)
	if code != 0 && p.stdout.Len() > 0 {
		b.t.Fatalf("%v: stdout has %q", args, p.stdout.String())
	}
	return p, p.stdout.String()
}

// fields are the words of a table, its lines joined by |.
func fields(table string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "|")
}

// A topic is made as it was asked for, listed, described with its offsets and
// deleted; one that exists is not made, one that does not is not deleted.
func TestTopics(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p, stdout := b.command(0, "topics", "create", "orders", "-p", "4", "-r", "1")
	p.says("created orders (4 partitions)")
	details, err := b.admin.ListTopics(b.ctx, "orders")
	if err != nil || stdout != "" || len(details["orders"].Partitions) != 4 || details["orders"].Partitions.NumReplicas() != 1 {
		t.Fatalf("orders is %v (%v), stdout %q", details["orders"], err, stdout)
	}
	if _, out := b.command(0, "topics", "list"); fields(out) != "TOPIC PARTITIONS REPLICAS|case.in 1 1|case.out 1 1|orders 4 1" {
		t.Errorf("list:\n%s", out)
	}
	if _, out := b.command(0, "topics", "list", "--json"); out != `{"topic":"case.in","partitions":1,"replicas":1}
{"topic":"case.out","partitions":1,"replicas":1}
{"topic":"orders","partitions":4,"replicas":1}
` {
		t.Errorf("list --json:\n%s", out)
	}
	if _, out := b.command(0, "topics", "describe", caseIn); fields(out) != "TOPIC PARTITION LEADER REPLICAS IN-SYNC START END|case.in 0 0 0 0 0 3" {
		t.Errorf("describe:\n%s", out)
	}
	if _, out := b.command(0, "topics", "describe", caseIn, "--json"); out !=
		`{"topic":"case.in","partitions":[{"partition":0,"leader":0,"replicas":[0],"in_sync":[0],"start":0,"end":3}]}`+"\n" {
		t.Errorf("describe --json: %s", out)
	}
	p, _ = b.command(1, "topics", "create", "other", "orders")
	p.says("orders exists", "4 partitions", "nothing was made")
	for _, verb := range []string{"describe", "delete"} {
		args := []string{"topics", verb, "orders", "order"}
		if verb == "delete" {
			args = append(args, "--yes")
		}
		p, _ = b.command(1, args...)
		p.says("no such topic: order", `did you mean "orders"?`)
	}
	p, _ = b.command(2, "topics", "delete", "orders")
	p.says("orders", "--yes")
	b.hasTopics("case.in case.out orders")
	b.command(0, "topics", "delete", "orders", "--yes")
	for _, bad := range []string{"-p 0", "-p x", "-r 0", "-p 2147483648", "-r 40000"} {
		b.command(2, append([]string{"topics", "create", "never"}, strings.Fields(bad)...)...)
	}
	b.hasTopics("case.in case.out")
}

// hasTopics looks with a client of its own: an older one may answer from memory.
func (b *caseBroker) hasTopics(want string) {
	b.t.Helper()
	_, admin := franz(b.t, b.address())
	details, err := admin.ListTopics(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	if got := strings.Join(details.Names(), " "); got != want {
		b.t.Fatalf("the topics are %s, want %s", got, want)
	}
}

// A configuration file says where the embedded broker's data is, to every command
// that may use it, and what a command proposes reaches the same data.
func TestBrokerDataOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flow.yaml"), []byte("broker-data: kept here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "kept here")
	broker := inDir(t, dir, "broker", "--listen", "127.0.0.1:0", "--data", data, "--topic", "orders:2")
	broker.await(`created orders`)
	for _, command := range []string{"topics list", "topics describe orders", "topics create new", "groups list", "produce orders", "consume -e orders"} {
		inDir(t, dir, append(strings.Fields(command), "-c", "flow.yaml")...).endsWith(0)
	}
	p := inDir(t, dir, "consume", "-e", "missing", "-c", "flow.yaml")
	p.endsWith(1)
	p.says("no such topic: missing", "`ankka-flow topics create missing --broker-data \"kept here\"` makes it")
	broker.stopsWell()
}

// A group is shown with its lag, and moved only while nobody reads and to where
// there is something to read.
func TestGroups(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(5)
	offsets := kadm.Offsets{}
	offsets.AddOffset(caseIn, 0, 2, -1)
	if err := b.admin.CommitAllOffsets(b.ctx, caseGroup, offsets); err != nil {
		t.Fatal(err)
	}
	if _, out := b.command(0, "groups", "list"); fields(out) != "GROUP STATE MEMBERS|"+caseGroup+" Empty 0" {
		t.Errorf("list:\n%s", out)
	}
	if _, out := b.command(0, "groups", "list", "--json"); out != `{"group":"`+caseGroup+`","state":"Empty","members":0}`+"\n" {
		t.Errorf("list --json:\n%s", out)
	}
	if _, out := b.command(0, "groups", "describe", caseGroup); fields(out) !=
		"GROUP STATE TOPIC PARTITION COMMITTED END LAG MEMBER HOST|"+caseGroup+" Empty case.in 0 2 5 3 - -" {
		t.Errorf("describe:\n%s", out)
	}
	p, _ := b.command(2, "groups", "seek", caseGroup, caseIn, "0", "start")
	p.says("--yes")
	for _, c := range []struct {
		code  int
		where []string
		want  string
	}{
		{2, []string{caseGroup, caseIn, "0", "6"}, "0 to 5"},
		{2, []string{caseGroup, caseIn, "1", "start"}, "partitions 0 to 0"},
		{2, []string{caseGroup, caseIn, "0", "middle"}, "start, end or N"},
		{1, []string{caseGroup, "case.inn", "0", "start"}, `did you mean "case.in"?`},
		{1, []string{"case.case.inn", caseIn, "0", "start"}, `did you mean "case.case.in"?`},
	} {
		p, _ := b.command(c.code, append([]string{"groups", "seek", "--yes"}, c.where...)...)
		p.says(c.want)
	}
	if at := b.committed(0); at != 2 {
		t.Fatalf("what was refused moved the group to %d", at)
	}
	for _, c := range []struct {
		to   string
		want int64
	}{{"end", 5}, {"start", 0}, {"4", 4}} {
		b.command(0, "groups", "seek", caseGroup, caseIn, "0", c.to, "--yes")
		if at := b.committed(0); at != c.want {
			t.Fatalf("seek to %s: the group is at %d, want %d", c.to, at, c.want)
		}
	}

	member, err := kgo.NewClient(kgo.SeedBrokers(b.address()), kgo.ConsumerGroup(caseGroup), kgo.ConsumeTopics(caseIn), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	if got := member.PollFetches(b.ctx).Records(); len(got) != 1 || got[0].Offset != 4 {
		t.Fatalf("a member reads %v after the seek to 4", got)
	}
	p, _ = b.command(1, "groups", "seek", caseGroup, caseIn, "0", "start", "--yes")
	p.says(caseGroup, "1 member", "nothing was changed")
	_, out := b.command(0, "groups", "describe", caseGroup, "--json")
	var described struct {
		State      string
		Members    []struct{ Member string }
		Partitions []struct {
			Lag    int64
			Member string
		}
	}
	if err := json.Unmarshal([]byte(out), &described); err != nil || described.State != "Stable" || len(described.Members) != 1 ||
		len(described.Partitions) != 1 || described.Partitions[0].Lag != 1 || described.Partitions[0].Member != described.Members[0].Member {
		t.Errorf("describe --json (%v): %s", err, out)
	}
	if at := b.committed(0); at != 4 {
		t.Errorf("the refused seek moved the group to %d", at)
	}
}
