package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/cmd/ankka-flow/deadletter"
	"ankka-flow/delivery/record"
)

// headersFrom makes headers of NAME=VALUE; NAME alone is a null one.
func headersFrom(given ...string) []kgo.RecordHeader {
	var out []kgo.RecordHeader
	for _, g := range given {
		name, value, ok := strings.Cut(g, "=")
		h := kgo.RecordHeader{Key: name}
		if ok {
			h.Value = []byte(value)
		}
		out = append(out, h)
	}
	return out
}

// letter is a dead letter that says where it was read.
func letter(value, topic string, partition int, more ...string) *kgo.Record {
	at := []string{"__flow.errors.origin.topic=" + topic, fmt.Sprintf("__flow.errors.origin.partition=%d", partition), "__flow.errors.topic=" + topic, "__flow.errors.reason=poison"}
	return &kgo.Record{Key: []byte("k"), Value: []byte(value), Headers: headersFrom(append(at, more...)...)}
}

// makeTopic makes a topic with the broker's defaults.
func (b *caseBroker) makeTopic(topic string, partitions int32) {
	b.t.Helper()
	if _, err := b.admin.CreateTopic(b.ctx, partitions, 1, nil, topic); err != nil {
		b.t.Fatal(err)
	}
}

// putLetters makes the dead-letter topic, of one partition, with records.
func (b *caseBroker) putLetters(records ...*kgo.Record) {
	b.t.Helper()
	b.makeTopic(caseLetters, 1)
	for _, r := range records {
		r.Topic = caseLetters
	}
	if err := b.client.ProduceSync(b.ctx, records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// log is what a topic has, by partition.
func (b *caseBroker) log(topic string) map[int32][]*kgo.Record {
	b.t.Helper()
	return readLogs(b.ctx, b.t, b.cluster.ListenAddrs(), []string{topic})[topic]
}

// redrive runs redrive --yes on the dead letters.
func (b *caseBroker) redrive(code int, flags ...string) *program {
	b.t.Helper()
	p := startProgram(b.t, programOptions{dir: b.dir}, append([]string{"dead-letters", "redrive", caseLetters, "-b", b.address(), "--yes"}, flags...)...)
	p.endsWith(code)
	return p
}

// recordText is all of a record that a redrive has to restore.
func recordText(r *kgo.Record) string {
	text := fmt.Sprintf("%q %v %q %v", r.Key, r.Key == nil, r.Value, r.Value == nil)
	for _, h := range r.Headers {
		text += fmt.Sprintf(" %s=%q %v", h.Key, h.Value, h.Value == nil)
	}
	return text
}

// A streamlet's dead letters: counted, shown, left alone by a dry run, and redriven. What was
// mended meanwhile goes through, what was not comes back and is left at the limit.
func TestDeadLettersOfAStreamlet(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.put(&kgo.Record{Key: []byte("k"), Value: []byte("retry 1"), Headers: headersFrom("h=1", "h")}, &kgo.Record{Key: nil, Value: []byte("bad 2")})
	p := b.erring(policyEnv, nil)
	b.awaitCommit(2)
	_, out := b.command(0, "dead-letters", "list", caseLetters)
	for _, row := range []string{`^RECORDS ORIGIN TOPIC STAGE EXCEPTION REASON REDRIVES\|`, `\|1 case.in case.in TRANSFORMATION \S*Retriable exhausted 0`, `\|1 case.in case.in TRANSFORMATION \S*ValueError poison 0`} {
		if !regexp.MustCompile(row).MatchString(fields(out)) {
			t.Errorf("list has no %s:\n%s", row, out)
		}
	}
	_, shown := b.command(0, "dead-letters", "show", caseLetters, "--where", "__flow.errors.reason=poison")
	var line struct{ Value string }
	if err := json.Unmarshal([]byte(shown), &line); err != nil || line.Value != "bad 2" {
		t.Errorf("show (%v): %s", err, shown)
	}
	dry, _ := b.command(0, "dead-letters", "redrive", caseLetters)
	dry.says("2 records of case.dlq would be redriven", "--yes")
	if got := b.log(caseIn)[0]; len(got) != 2 {
		t.Fatalf("the dry run wrote %d records", len(got)-2)
	}
	if groups, err := b.admin.ListGroups(b.ctx); err != nil || len(groups) != 1 {
		t.Errorf("the dry run made a group: %v (%v)", groups.Groups(), err)
	}

	b.mend()
	b.redrive(0).says("2 records of case.dlq redriven")
	b.awaitCommit(4)
	eventually(t, "the mended record goes through", func() bool { return len(b.out()) == 1 })
	if got := b.out()[0]; string(got.Value) != "retry 1" || fmt.Sprint(got.Headers[:2]) != fmt.Sprint(headersFrom("h=1", "h")) {
		t.Errorf("the outlet has %s", recordText(got))
	}
	letters := b.letters()
	if values(letters) != "retry 1,bad 2,bad 2" {
		t.Fatalf("the dead letters are %s", values(letters))
	}
	back := headersOf(letters[2], "__flow.errors.")
	if back["redrives"] != "1" || back["origin.offset"] != "1" || back["offset"] != "3" || headersOf(letters[2], "__connect.errors.")["offset"] != "3" {
		t.Errorf("what came back says %v", back)
	}
	b.redrive(0, "--max-redrives", "1").says("0 records of case.dlq redriven", "left: 2 redriven before, 1 redriven 1 times or more")
	b.redrive(0, "--max-redrives", "2").says("1 record of case.dlq redriven", "left: 2 redriven before")
	b.awaitCommit(5)
	p.stopsWell()
}

// Key, value, headers and order are those before the failure, in the partition of the origin,
// whether an SDK of ours or Kafka Connect wrote the letter.
func TestRedriveRestoresRecords(t *testing.T) {
	t.Parallel()
	b := newBrokerWith(t, 3)
	connect := func(topic string, more ...string) []string {
		return append([]string{"__connect.errors.topic=" + topic, "__connect.errors.partition=2", "__connect.errors.exception.message"}, more...)
	}
	first := letter("1", caseIn, 1, "h")
	first.Headers = append(headersFrom("h=0", "h="), first.Headers...)
	b.putLetters(
		first,
		&kgo.Record{Key: nil, Value: nil, Headers: headersFrom(connect(caseIn, "mine=\xff")...)},
		&kgo.Record{Key: []byte{}, Value: []byte{}, Headers: headersFrom(connect("older", connect(caseIn)...)...)},
		letter("4", caseOut, 0), letter("5", caseIn, 1), letter("6", caseIn, 7, "__flow.errors.redrives=2"),
	)
	p := b.redrive(0)
	p.says("6 records of case.dlq redriven")
	got := map[string]string{}
	for _, topic := range []string{caseIn, caseOut} {
		for partition, log := range b.log(topic) {
			for _, r := range log {
				at := fmt.Sprintf("%s/%d", topic, partition)
				if string(r.Value) == "6" {
					at = "by its key" // the origin has no partition 7
				}
				got[at] += recordText(r) + "\n"
			}
		}
	}
	kept := `__flow.errors.origin.topic="case.in" false __flow.errors.origin.partition="1" false`
	for at, want := range map[string]string{
		"case.in/1": `"k" false "1" false h="0" false h="" false ` + kept + ` h="" true __flow.errors.redrives="1" false` + "\n" +
			`"k" false "5" false ` + kept + ` __flow.errors.redrives="1" false` + "\n",
		"case.in/2":  `"" true "" true mine="\xff" false __flow.errors.redrives="1" false` + "\n" + `"" false "" false __flow.errors.redrives="1" false` + "\n",
		"case.out/0": `"k" false "4" false ` + strings.NewReplacer(`"case.in"`, `"case.out"`, `"1"`, `"0"`).Replace(kept) + ` __flow.errors.redrives="1" false` + "\n",
		"by its key": `"k" false "6" false ` + strings.ReplaceAll(kept, `"1"`, `"7"`) + ` __flow.errors.redrives="3" false` + "\n",
	} {
		if got[at] != want {
			t.Errorf("%s:\n got %swant %s", at, got[at], want)
		}
	}
}

// What is kept of a record until it is written is not the fetch's.
func TestClonedHasBytesOfItsOwn(t *testing.T) {
	from := record.Record{Key: []byte("k"), Value: nil, Headers: []record.Header{{Name: []byte("n"), Value: []byte("v")}, {Name: []byte("m")}}}
	got := cloned(deadletter.Redriven(&from, &deadletter.Letter{}))
	for _, b := range [][]byte{from.Key, from.Headers[0].Name, from.Headers[0].Value, from.Headers[1].Name} {
		b[0] = '!'
	}
	if string(got.Key) != "k" || got.Value != nil || string(got.Headers[0].Name)+string(got.Headers[0].Value)+string(got.Headers[1].Name) != "nvm" || got.Headers[1].Value != nil {
		t.Errorf("%+v", got)
	}
}

// Killed between the confirmation and the commit, it goes on: nothing is lost, in order, and
// no more than one chunk comes twice.
func TestRedriveAfterKill9(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	const n = 3*redriveChunk - 100
	var letters []*kgo.Record
	for i := range n {
		letters = append(letters, letter(fmt.Sprint(i), caseIn, 0))
	}
	b.putLetters(letters...)
	process := make(chan *os.Process, 1)
	commits := 0
	b.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if commits++; commits != 2 {
			return nil, nil, false
		}
		_ = (<-process).Kill() // the exit code shows it
		return nil, errors.New("nobody is left"), true
	})
	p := startProgram(t, programOptions{dir: b.dir}, "dead-letters", "redrive", caseLetters, "-b", b.address(), "--yes")
	process <- p.cmd.Process
	p.endsWith(128 + 9)
	if got := len(b.log(caseIn)[0]); got != 2*redriveChunk {
		t.Fatalf("%d records were written before it was killed", got)
	}
	b.redrive(0).says(fmt.Sprintf("%d records of case.dlq redriven, left: %d redriven before", n-redriveChunk, redriveChunk))
	var got, want []string
	for _, r := range b.log(caseIn)[0] {
		got = append(got, string(r.Value))
	}
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	want = append(want[:2*redriveChunk:2*redriveChunk], want[redriveChunk:]...)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d records, want %d: all in order, and the second chunk twice", len(got), len(want))
	}
	b.redrive(0).says("0 records of case.dlq redriven")
}

// Each selection is redriven once, whichever comes first and wherever it went.
func TestRedriveOfSelections(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.makeTopic("quarantine", 1)
	b.putLetters(letter("1", caseIn, 0, "user=a"), letter("2", caseIn, 0, "user=b"), letter("3", caseIn, 0, "user=a", "__flow.errors.redrives=3"), letter("4", caseIn, 0, "user=a"))
	b.redrive(0, "--where", "user=a", "--where", "__flow.errors.reason=poison", "--to", "quarantine").says("2 records of case.dlq redriven")
	b.redrive(0, "--where", "user=a", "--where", "__flow.errors.reason=other").says("0 records of case.dlq redriven")
	if got := values(b.log("quarantine")[0]); got != "1,4" {
		t.Errorf("--to quarantine: %s", got)
	}
	b.redrive(0).says("1 record of case.dlq redriven", "left: 2 redriven before, 1 redriven 3 times or more")
	b.redrive(0, "--max-redrives", "4").says("1 record of case.dlq redriven", "left: 3 redriven before")
	if got := b.log(caseIn)[0]; values(got) != "2,3" || headersOf(got[1], "__flow.errors.")["redrives"] != "4" {
		t.Errorf("to the origin: %s", values(got))
	}
}

// A dead-letter topic that letters came from is not read beyond its end at the start.
func TestRedriveNeverChasesItsTail(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putLetters(letter("1", caseLetters, 0), letter("2", caseLetters, 0))
	for round, want := range []string{"1,2,1,2", "1,2,1,2,1,2", "1,2,1,2,1,2,1,2", "1,2,1,2,1,2,1,2"} {
		b.redrive(0)
		if got := values(b.letters()); got != want {
			t.Fatalf("round %d: %s, want %s", round+1, got, want)
		}
	}
}

// Reading to the end ends where no record is just below it, a transaction's marker say, and a
// younger one comes meanwhile.
func TestDeadLettersEndBehindAMarker(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"dead-letters show", "consume -e"} {
		b := newCaseBroker(t)
		b.makeTopic(caseLetters, 1)
		b.inTransaction(letter("1", caseIn, 0))
		b.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.cluster.SleepControl(func() {
				if err := b.client.ProduceSync(b.ctx, &kgo.Record{Topic: caseLetters, Value: []byte("younger")}).FirstErr(); err != nil {
					t.Error(err)
				}
			})
			return nil, nil, false
		})
		_, out := b.command(0, append(strings.Fields(command), caseLetters)...)
		if strings.Count(out, "\n") != 1 || strings.Contains(out, "younger") {
			t.Errorf("%s: %s", command, out)
		}
	}
}

// inTransaction writes dead letters in a transaction, whose marker follows them.
func (b *caseBroker) inTransaction(records ...*kgo.Record) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.address()), kgo.TransactionalID("letters"), kgo.DefaultProduceTopic(caseLetters))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	err = errors.Join(client.BeginTransaction(), client.ProduceSync(b.ctx, records...).FirstErr(), client.EndTransaction(b.ctx, kgo.TryCommit))
	if err != nil {
		b.t.Fatal(err)
	}
}

// What cannot go anywhere is said, a line each, and nothing is written in part.
func TestRedriveRefuses(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.redrive(1)
	p.says("no such topic: case.dlq")
	if n := p.count(); n != 1 {
		t.Errorf("%d lines about a topic that does not exist", n)
	}
	b.putLetters(&kgo.Record{Value: []byte("1"), Headers: headersFrom("user=1")}, letter("2", caseIn, 0), letter("3", "gone.1", 0), letter("4", "gone.2", 0))
	p = b.redrive(1)
	p.says("no such topic: gone.1")
	p.says("no such topic: gone.2")
	if got := b.log(caseIn)[0]; len(got) != 0 {
		t.Errorf("%d records were written", len(got))
	}
	b.makeTopic("gone.1", 1)
	b.makeTopic("gone.2", 1)
	p = b.redrive(1)
	p.says("3 records of case.dlq redriven", "1 without an origin")
	p.says("1 record of case.dlq without a header", "--to")
	b.redrive(0, "--to", caseOut).says("1 record of case.dlq redriven", "left: 3 redriven before")
	if got := values(b.out()); got != "1" {
		t.Errorf("--to %s: %s", caseOut, got)
	}
	p = b.redrive(1, "--to", "case.outt")
	p.says("no such topic: case.outt", `did you mean "case.out"?`)
	p = b.redrive(2, "--to", caseLetters, "--where", "x", "--where", "=y")
	p.says("--to case.dlq", "itself")
	p.says("--where", `"x"`, "HEADER=VALUE")
	p.says("--where", `"=y"`)
	b.redrive(2, "--max-redrives", "0")
	b.redrive(2, "--where", "x="+strings.Repeat("y", 1000)).says("--where is too long")
}

// A redrive is no faster than it may be, and a count is JSON where that is asked for.
func TestRedriveHasARate(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	var letters []*kgo.Record
	for i := range 8 {
		letters = append(letters, letter(fmt.Sprint(i), caseIn, 0))
	}
	b.putLetters(letters...)
	began := time.Now()
	p := b.redrive(0, "--rate", "8", "--json")
	if took := time.Since(began); took < time.Second || len(b.log(caseIn)[0]) != 8 {
		t.Errorf("%d records within %v", len(b.log(caseIn)[0]), took)
	}
	if got, want := p.stdout.String(), `{"records":8,"verdict":"redrive","to":"case.in","origin":"case.in","topic":"case.in","stage":null,"exception":null,"reason":"poison","redrives":0}`+"\n"; got != want {
		t.Errorf("--json: %s", got)
	}
}

// The commands of the page on errors, typed from top to bottom.
func TestErrorsPageRuns(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.makeTopic("cart-router.in", 1)
	b.makeTopic("cart-router.dlq", 1)
	b.makeTopic("cart-router.quarantine", 1)
	records := []*kgo.Record{letter("1", "cart-router.in", 0, "__flow.errors.reason=exhausted"), letter("2", "cart-router.in", 0), letter("3", "cart-router.in", 0, "__flow.errors.redrives=3")}
	for _, r := range records {
		r.Topic = "cart-router.dlq"
	}
	if err := b.client.ProduceSync(b.ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "docs/errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	w := &walkthrough{t: t, o: onPath(t, "FLOW_BROKERS="+b.address())}
	w.page("errors.md")
	if n := len(regexp.MustCompile(`(?m)^    ankka-flow dead-letters`).FindAll(text, -1)); n < 5 || w.commands != n {
		t.Errorf("%d commands were run of %d", w.commands, n)
	}
	if in, away := values(b.log("cart-router.in")[0]), values(b.log("cart-router.quarantine")[0]); in != "1" || away != "2,3" {
		t.Errorf("after the page the inlet has %s, the quarantine %s", in, away)
	}
}
