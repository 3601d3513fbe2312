package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inDir runs the binary in a directory, with a text log.
func inDir(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	return startProgram(t, programOptions{dir: dir, env: caseEnv()}, append([]string{"--log-format", "text"}, args...)...)
}

// runIn is `run` on the embedded broker of a directory.
func runIn(t *testing.T, dir string, flags ...string) *program {
	t.Helper()
	return inDir(t, dir, append(append(append([]string{"run"}, flags...), "--"), misbehaves(t, "good")...)...)
}

// brokerIn is `broker` in a directory, where it listens.
func brokerIn(t *testing.T, dir, listen string, more ...string) (*program, string) {
	t.Helper()
	p := inDir(t, dir, append([]string{"broker", "--listen", listen}, more...)...)
	return p, p.await(`broker +embedded at ([0-9.:]+),`)[1]
}

func (p *program) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.exited
}

// produceIn writes one record to the cases' inlet.
func produceIn(t *testing.T, dir, value string) {
	t.Helper()
	p := startProgram(t, programOptions{dir: dir, stdin: value + "\n"}, "produce", "--raw", caseIn)
	p.endsWith(0)
}

// The command whose embedded broker others share may end first, however it
// ends: one of them takes the broker over, and nothing else is noticed.
func TestSharedBrokerIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, address := brokerIn(t, dir, "127.0.0.1:0")
	p := runIn(t, dir)
	p.await(`broker +the embedded one of another command, at ` + address)
	p.await(`ready`)
	produceIn(t, dir, "a")
	p.await(`committed +1 in, 1 out`)
	owner.kill()
	p.await(`WRN broker +.*another ankka-flow command.*has ended; .ankka-flow broker. here brings it back`)
	p.await(`broker +taken over: embedded at ` + address)
	produceIn(t, dir, "b")
	p.await(`committed +2 in, 2 out`)

	// The other way round: run ends, and who reads on has the broker then.
	reader := inDir(t, dir, "consume", "--values", "-n", "3", caseOut)
	second := runIn(t, dir)
	second.await(`ready`)
	p.stopsWell()
	eventually(t, "one of both takes over", func() bool {
		return strings.Contains(reader.stderr()+second.stderr(), "taken over")
	})
	produceIn(t, dir, "c")
	reader.endsWith(0)
	if got := strings.Fields(reader.stdout.String()); len(got) != 3 {
		t.Errorf("read %q, want a, b and c", got)
	}
	eventually(t, "the third record is committed by the second run", func() bool {
		return strings.Contains(second.stderr(), "committed  1 in, 1 out")
	})
	second.stopsWell()
}

// --until-end does not hang when the broker of another command ends under it.
func TestSharedBrokerIsTakenOverByAUntilEndRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, _ := brokerIn(t, dir, "127.0.0.1:0", "--topic", caseIn+":1")
	produceIn(t, dir, "a")
	hold := newHeld(t)
	p := inDir(t, dir, append([]string{"run", "--until-end", "--"}, misbehaves(t, "hold", "--until", hold.path)...)...)
	p.await(`holding batch 1`)
	owner.kill()
	hold.all()
	p.endsWith(0)
	p.says("taken over")
}

// An embedded broker that comes back at another address is found there.
func TestSharedBrokerIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, _ := brokerIn(t, dir, "127.0.0.1:0")
	p := runIn(t, dir)
	p.await(`ready`)
	owner.kill()
	again, address := brokerIn(t, dir, "127.0.0.1:0")
	p.await(`broker +the embedded one of another command, now at ` + address)
	produceIn(t, dir, "a")
	p.await(`committed +1 in, 1 out`)
	p.stopsWell()
	again.stopsWell()
	again.says("broker", "ended", ".ankka-flow/broker")
}

// The port of the broker that is shared goes to the broker of another
// directory: that one is not spoken to.
func TestAnotherDirectorysBrokerIsNotAdopted(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	owner, address := brokerIn(t, dir, "127.0.0.1:0")
	p := runIn(t, dir)
	p.await(`ready`)
	owner.kill()
	foreign, _ := brokerIn(t, other, address, "--topic", caseIn, "--topic", caseOut)
	p.await(`broker +taken over: embedded at .*; ` + address + ` has another program now`)
	produceIn(t, dir, "a")
	p.await(`committed +1 in, 1 out`)
	p.stopsWell()
	client, admin := franz(t, address)
	defer client.Close()
	groups, err := admin.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) > 0 {
		t.Errorf("the other directory's broker has the groups %v", groups.Groups())
	}
	foreign.stopsWell()
}

// Data that is reset under a command is not its data any more: it ends.
func TestResetDataIsNotTakenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, _ := brokerIn(t, dir, "127.0.0.1:0")
	p := runIn(t, dir)
	p.await(`ready`)
	reader := startCommand(t, programOptions{dir: dir}, "sh", "-c", `exec "$0" consume "$1" >read`, binary, caseOut)
	writer, keyboard := typed(t, dir, caseIn)
	enter(t, keyboard, `{"value":"a"}`+"\n")
	p.await(`committed +1 in, 1 out`)
	eventually(t, "what is written is read", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "read"))
		return len(text) > 0
	})
	owner.kill()
	again, _ := brokerIn(t, dir, "127.0.0.1:0", "--reset")
	for _, p := range []*program{p, reader, writer} {
		p.endsWith(1)
		p.says("ankka-flow: ", "removed or replaced", "start it again")
	}
	again.stopsWell()
}

// Ports that share a topic: it is made once.
func TestTwoOutletsOnOneTopic(t *testing.T) {
	t.Parallel()
	dir := exampleDir(t)
	p := inDir(t, dir, "run", "--topic", "review=both", "--topic", "valid=both", "--input", "in=examples/carts.jsonl", "--until-end", "--",
		"python3", "examples/cart_router.py")
	p.endsWith(0)
	p.says("created both, cart-router.in (3 partitions)")

	// What is there already is not written again, and that is said.
	p = inDir(t, dir, "run", "--topic", "review=both", "--topic", "valid=both", "--input", "in=examples/carts.jsonl", "--until-end", "--",
		"python3", "examples/cart_router.py")
	p.endsWith(0)
	p.says("INF input", "has records already", "carts.jsonl is not written")
}

// Nothing is made of a name that is no topic's, nor of a streamlet that would
// feed itself.
func TestNothingIsMadeOfWrongNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags []string
		code  int
		want  []string
	}{
		{[]string{"--pipeline", "../x"}, 2, []string{"--pipeline", `"../x"`, "letters, digits"}},
		{[]string{"--pipeline", strings.Repeat("p", 248)}, 1, []string{"ERR refused", "topic of port out", "252 bytes", "249"}},
		{[]string{"--topic", "in=same", "--topic", "out=same"}, 1, []string{"ERR refused", "inlet in reads topic same, which outlet out writes"}},
	} {
		dir := t.TempDir()
		p := runIn(t, dir, c.flags...)
		p.endsWith(c.code)
		p.says(c.want...)
		made, err := filepath.Glob(filepath.Join(dir, defaultBrokerData, "partitions", "*"))
		if err != nil || len(made) > 0 {
			t.Errorf("%v: made %v (%v)", c.flags, made, err)
		}
	}
}

// A directory that cannot be used is named with the flag that names another.
func TestUnusableBrokerData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{append([]string{"run", "--broker-data", "file", "--"}, misbehaves(t, "good")...), []string{"file", "not a directory", "--broker-data", "--brokers"}},
		{[]string{"broker", "--data", "file"}, []string{"file", "not a directory", "--data"}},
		{[]string{"broker", "--data", "file", "--reset"}, []string{"file", "not a directory", "--data"}},
	} {
		p := inDir(t, dir, c.args...)
		p.endsWith(1)
		p.says(append([]string{"ankka-flow: "}, c.want...)...)
	}
	p := inDir(t, dir, "broker", "--reset", "--data", ".")
	p.endsWith(1)
	p.says("holds no broker's data", "nothing was removed")
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("it left %v", entries)
	}
}

// broker says what it made and what it did not, and when it ends.
func TestBrokerSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, _ := brokerIn(t, dir, "127.0.0.1:0", "--topic", "q:2")
	p.says("INF topics", "created q (2 partitions)")
	p.stopsWell()
	p.says("INF broker", "ended")
	p, _ = brokerIn(t, dir, "127.0.0.1:0", "--topic", "q:9", "--topic", "q")
	p.says("WRN topics", "q has 2 partitions already", "--topic q:9")
	p.stopsWell()
}
