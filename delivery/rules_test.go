package delivery

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryRuleHasATest parses the rules out of doc.go and the tests out of
// this file.
func TestEveryRuleHasATest(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("rules_test.go")
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`(?m)^//   - (R\d+): `).FindAllSubmatch(doc, -1)
	if len(rules) != 12 {
		t.Errorf("doc.go has %d rules, not 12", len(rules))
	}
	for _, rule := range rules {
		if !strings.Contains(string(tests), "func Test"+string(rule[1])+"_") {
			t.Errorf("%s has no test", rule[1])
		}
	}
}

// rig drives a core by the trace format: the tests read as what happens.
type rig struct {
	t    *testing.T
	core *Core
	now  time.Duration
}

// running is a rig whose conversation runs, with these partitions of "in".
func running(t *testing.T, cfg Config, starts string) *rig {
	r := &rig{t: t, core: New(cfg)}
	r.do(`Ticked`)
	r.do(`Launched process=1 pid=1`)
	r.do(`SpecGood process=1 inlets=["in"] outlets=["out"] maxInFlight=8`)
	r.do(`Assigned inlet="in" generation=1 starts=` + starts)
	if s := r.core.Status(); s.State != Running || !s.Ready {
		t.Fatalf("it does not run: %+v", s)
	}
	return r
}

// do steps an event and returns the actions, but for the notes.
func (r *rig) do(event string) []string {
	r.t.Helper()
	ev, err := parseEvent(event)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, a := range r.core.Step(nil, r.now, ev) {
		if _, ok := a.(Note); !ok {
			out = append(out, a.String())
		}
	}
	r.core.valid()
	return out
}

func (r *rig) all(events ...string) (last []string) {
	r.t.Helper()
	for _, e := range events {
		last = r.do(e)
	}
	return last
}

// at moves the clock.
func (r *rig) at(now time.Duration) *rig {
	r.now = now
	return r
}

// want is that the actions are exactly those, each given by its beginning.
func (r *rig) want(event string, actions ...string) {
	r.t.Helper()
	got := r.do(event)
	ok := len(got) == len(actions)
	for i := 0; ok && i < len(got); i++ {
		ok = strings.HasPrefix(got[i], actions[i])
	}
	if !ok {
		r.t.Errorf("%s\n got %q\nwant %q", event, got, actions)
	}
}

func (r *rig) partition(n int) PartitionStatus {
	r.t.Helper()
	for _, p := range r.core.Status().Partitions {
		if p.TP == (TP{"in", int32(n)}) {
			return p
		}
	}
	r.t.Fatalf("no partition %d", n)
	return PartitionStatus{}
}

// emitted brings a batch of one record on in/0 to its ack, with an emit.
func (r *rig) acked(id string) []string {
	r.t.Helper()
	return r.all(`Emitted process=1 id=`+id+` outlet="out" records=1 bytes=9`, `Acked process=1 id=`+id)
}

func TestR1_NothingIsCommittedBeforeTheWriteIsConfirmed(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.want(`Fetched tp=in/0`, `Deliver process=1 id=1`)
	r.want(`Cut id=1 next=1 records=1 bytes=5`)
	r.want(`Emitted process=1 id=1 outlet="out" records=1 bytes=9`, `Hold id=1`)
	r.want(`Acked process=1 id=1`, `Write id=1`)
	r.at(time.Second).want(`Ticked`)
	r.want(`WriteUnknown id=1 reason="connection lost"`)
	r.at(2 * time.Second).want(`Ticked`)
	r.want(`Written id=1`, `Commit inlet="in" generation=1 sequence=1 offsets=[0@1]`)
}

func TestR2_NothingBehindAnUnwrittenBatchIsCommitted(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5 more`)
	r.acked("1")
	r.do(`Cut id=2 first=1 next=2 records=1 bytes=5 more`)
	// An ack without emits needs no write, and waits behind W all the same.
	r.want(`Acked process=1 id=2`)
	r.want(`Refused id=1 reason="no" accused=[in/0]`, `Drop id=2`, `Stop process=1 abandon`, `Pause tp=in/0`)
	if p := r.partition(0); p.Committed != 0 || p.Confirmed != 0 || p.Position != 0 {
		t.Errorf("behind a refused write: %+v", p)
	}
}

func TestR2_ALostPartitionThatComesBackWaitsForItsOldWrite(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.acked("1")
	r.all(`Lost inlet="in"`, `Assigned inlet="in" generation=9 starts=[0@0]`)
	r.want(`Fetched tp=in/0`, `Deliver process=1 id=2`)
	r.do(`Cut id=2 next=1 records=1 bytes=5`)
	if got := r.acked("2"); len(got) != 0 {
		t.Errorf("beside the old write: %q", got)
	}
	r.want(`Written id=1`, `Write id=2`)
	if p := r.partition(0); p.Confirmed != 0 {
		t.Errorf("the old write was counted: %+v", p)
	}
}

func TestR2_ARangeWithoutRecordsIsCommittedInOrder(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5 more`)
	r.acked("1")
	r.want(`Cut id=2 first=1 next=7`)
	if p := r.partition(0); p.Position != 7 || p.Confirmed != 0 {
		t.Errorf("before the write: %+v", p)
	}
	r.want(`Written id=1`, `Commit inlet="in" generation=1 sequence=1 offsets=[0@7]`)
}

func TestR3_OneBatchWithTheProcessAlsoWhenItIsVoid(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5 more`)
	r.want(`Fetched tp=in/0`)
	r.want(`Lost inlet="in"`, `Withdraw process=1 id=1 revoke`, `Drop id=1`)
	r.want(`Assigned inlet="in" generation=9 starts=[0@0]`)
	r.want(`Fetched tp=in/0`)
	r.want(`Statused process=1 id=1 waiting`)
	r.want(`Failed process=1 id=1 message="stopped"`, `Seek tp=in/0`)
	r.want(`Fetched tp=in/0`, `Deliver process=1 id=2`)
}

func TestR3_TheExitAnswersWhatIsOwed(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.want(`Violated process=1 reason="half a frame"`, `Kill process=1`, `Drop id=1`, `Pause tp=in/0`)
	if !r.partition(0).Owed {
		t.Error("a process that is being killed holds its batch until it is gone")
	}
	r.want(`Exited process=1 reason="killed" code=137`, `Seek tp=in/0`)
	if s := r.core.Status(); s.Owed != 0 {
		t.Errorf("owed after the exit: %+v", s)
	}
}

func TestR4_AFailedBatchCommitsNothingAndIsRedelivered(t *testing.T) {
	r := running(t, Config{}, "[0@3]")
	r.all(`Fetched tp=in/0`, `Cut id=1 first=3 next=5 records=2 bytes=5`, `Emitted process=1 id=1 outlet="out" records=1 bytes=9`)
	r.want(`Failed process=1 id=1 message="no" offset=4`, `Drop id=1`, `Stop process=1 abandon`, `Pause tp=in/0`)
	r.do(`StoppedByProcess process=1`)
	r.at(time.Second).want(`Ticked`, `Seek tp=in/0 offset=3`, `Discover process=1`)
	r.do(`Fetched tp=in/0`)
	r.want(`SpecGood process=1 inlets=["in"] outlets=["out"]`, `Begin process=1 conversation=2`, `Deliver process=1 id=2 tp=in/0 offset=3 attempt=2`)
}

func TestR4_RedeliveryBeginsBehindWhatStillSettles(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5 more`)
	r.acked("1")
	r.do(`Cut id=2 first=1 next=2 records=1 bytes=5`)
	r.want(`Failed process=1 id=2 message="no" offset=1`, `Drop id=2`, `Stop process=1 abandon`, `Pause tp=in/0`)
	// That write is refused after all: now it begins where it is confirmed.
	r.want(`Refused id=1 reason="no" accused=[in/0]`)
	r.at(time.Second).want(`Ticked`, `Seek tp=in/0`)
	if p := r.partition(0); p.Position != 0 || p.Failures != 2 {
		t.Errorf("%+v", p)
	}
}

func TestR5_NothingIsSkippedButByAnAck(t *testing.T) {
	r := running(t, Config{ReconnectMin: time.Second, ReconnectMax: time.Second}, "[0@0]")
	r.do(`Fetched tp=in/0`)
	r.do(`Cut id=1 next=1 records=1 bytes=5`)
	for id := 1; id < 50; id++ {
		n := itoa(id)
		r.all(`Failed process=1 id=`+n+` message="poison"`, `StoppedByProcess process=1`)
		r.at(r.now + time.Second)
		r.do(`Ticked`)
		r.do(`Fetched tp=in/0`)
		got := r.do(`SpecGood process=1 inlets=["in"] outlets=["out"]`)
		if !strings.HasPrefix(got[len(got)-1], `Deliver process=1 id=`+itoa(id+1)+` tp=in/0 attempt=`) {
			t.Fatalf("after %d failures: %q", id, got)
		}
		r.do(`Cut id=` + itoa(id+1) + ` next=1 records=1 bytes=5`)
	}
	r.want(`Acked process=1 id=50`, `Drop id=50`, `Commit inlet="in" generation=1 sequence=1 offsets=[0@1]`)
}

func TestR5_AnOversizedRecordBlocksItsPartitionAndNotTheOthers(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.do(`Fetched tp=in/0`)
	r.want(`Oversized id=1 size=5000000`, `Stop process=1 abandon`, `Pause tp=in/0`)
	r.do(`StoppedByProcess process=1`)
	r.at(time.Second).all(`Ticked`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
	for i := range 5 {
		r.want(`Fetched tp=in/1`, `Deliver process=1 id=`+itoa(2*i+2)+` tp=in/1`)
		r.all(`Cut id=`+itoa(2*i+2)+` first=`+itoa(i)+` next=`+itoa(i+1)+` records=1 bytes=5`, `Acked process=1 id=`+itoa(2*i+2))
		r.at(r.now + 30*time.Second).do(`Ticked`)
		r.want(`Fetched tp=in/0`, `Deliver process=1 id=`+itoa(2*i+3)+` tp=in/0`)
		r.want(`Oversized id=`+itoa(2*i+3)+` size=5000000`, `Pause tp=in/0`)
	}
	if s := r.core.Status(); s.Failures != 1 || s.State != Running || r.partition(0).Committed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestR6_EmitsAreHeldInTheirOrderAndWrittenOnce(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=2 records=2 bytes=5`)
	for range 3 {
		r.want(`Emitted process=1 id=1 outlet="out" records=1 bytes=9`, `Hold id=1`)
	}
	r.want(`Acked process=1 id=1`, `Write id=1`)
	// Order ends at the ack: what comes behind it is a violation (case 12).
	r.want(`Emitted process=1 id=1 outlet="out" records=1 bytes=9`, `Kill process=1`)
}

func TestR7_ATakenBatchIsVoidAndThatIsNoFailure(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.want(`Revoked inlet="in" partitions=[0] deadline=9s`, `Withdraw process=1 id=1 revoke`, `Drop id=1`, `Release inlet="in" partitions=[0]`)
	r.want(`Emitted process=1 id=1 outlet="out" records=1 bytes=9`)
	r.want(`Acked process=1 id=1`)
	if s := r.core.Status(); s.Failures != 0 || s.State != Running {
		t.Errorf("%+v", s)
	}
}

func TestR7_WhatWasAckedSettlesBeforeTheRelease(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.acked("1")
	r.want(`Revoked inlet="in" partitions=[0] deadline=9s`)
	r.want(`Written id=1`, `Commit inlet="in" generation=1 sequence=1 offsets=[0@1]`)
	r.want(`Committed inlet="in" sequence=1`, `Release inlet="in" partitions=[0]`)
}

func TestR7_SuspendedGoesOnOnlyUnderTheNextGeneration(t *testing.T) {
	for _, test := range []struct {
		name, assigned string
		goesOn         bool
	}{
		{"given back at K", `Assigned inlet="in" generation=2 continues starts=[0@0]`, true},
		{"given back at C", `Assigned inlet="in" generation=2 continues starts=[0@1]`, true},
		{"given back beyond C", `Assigned inlet="in" generation=2 continues starts=[0@2]`, false},
		{"another member", `Assigned inlet="in" generation=2 starts=[0@0]`, false},
		{"not given back", `Assigned inlet="in" generation=2 continues starts=[]`, false},
		{"lost", `Lost inlet="in"`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := running(t, Config{}, "[0@0]")
			r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5 more`)
			r.acked("1")
			r.all(`Cut id=2 first=1 next=2 records=1 bytes=5`, `Emitted process=1 id=2 outlet="out" records=1 bytes=9`)
			// The next generation is joined when no write runs any more.
			r.want(`Suspended inlet="in"`)
			r.want(`Written id=1`, `Release inlet="in"`)
			r.want(`Acked process=1 id=2`)
			got := r.do(test.assigned)
			writes := slices.Contains(got, `Write id=2`)
			drops := slices.Contains(got, `Drop id=2`)
			if writes != test.goesOn || drops == test.goesOn {
				t.Errorf("goes on: %v, %q", test.goesOn, got)
			}
		})
	}
}

func TestR7_ACommitOfAnOldTenureSaysNothingAboutTheNew(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=5 records=5 bytes=5`)
	r.want(`Acked process=1 id=1`, `Drop id=1`, `Commit inlet="in" generation=1 sequence=1 offsets=[0@5]`)
	r.all(`Lost inlet="in"`, `Assigned inlet="in" generation=9 starts=[0@0]`, `Committed inlet="in" sequence=1`)
	if p := r.partition(0); p.Committed != 0 || r.core.Status().Batches != 0 {
		t.Errorf("%+v", p)
	}
}

func TestR8_BytesAreNamedByIDAndNeverLookedAt(t *testing.T) {
	// An emit without bytes is an emit: it is held, written and counted.
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1`)
	r.want(`Emitted process=1 id=1 outlet="out" records=1`, `Hold id=1`)
	r.want(`Acked process=1 id=1`, `Write id=1`)
	r.want(`Written id=1`, `Commit inlet="in"`)
	r.do(`Committed inlet="in" sequence=1`)
	if s := r.core.Status(); s.In != 1 || s.Out != 1 {
		t.Errorf("%d in, %d out", s.In, s.Out)
	}
}

func TestR9_NothingIsWrittenBeforeTheEpochIsRaised(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0,2@0]")
	for i, id := range []string{"1", "2", "3"} {
		r.all(`Fetched tp=in/`+itoa(i), `Cut id=`+id+` next=1 records=1 bytes=5`)
	}
	r.acked("1")
	r.acked("2")
	r.acked("3")
	r.want(`Unsettled id=1 reason="no answer"`, `RaiseEpoch`, `Stop process=1 abandon`, `Seek tp=in/0`)
	r.do(`StoppedByProcess process=1`)
	r.at(time.Minute/2).want(`Ticked`, `Discover process=1`)
	r.want(`SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.want(`Written id=3`, `Commit inlet="in"`)
	r.want(`EpochRaised`, `Begin process=1 conversation=2`)
	// Of write 2 nothing was appended: it goes out under the new epoch.
	r.want(`Written id=2`)
}

func TestR9_ALostPartitionsUnsettledWriteRaisesTheEpochToo(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.acked("1")
	// It is lost and comes back, and its next batch waits for the slot.
	r.all(`Lost inlet="in"`, `Assigned inlet="in" generation=9 starts=[0@0]`, `Fetched tp=in/0`, `Cut id=2 next=1 records=1 bytes=5`)
	r.acked("2")
	r.want(`Unsettled id=1 reason="no answer"`, `RaiseEpoch`, `Stop process=1 abandon`)
	r.want(`EpochRaised`, `Write id=2`)
}

func TestR10_TheCreditBoundsWhatIsWithTheProcess(t *testing.T) {
	r := running(t, Config{MaxRecords: 10, MaxBytes: 100, WithProcess: 250}, "[0@0,1@0,2@0,3@0]")
	r.all(`Fetched tp=in/2`, `Cut id=1 next=1 records=1 bytes=100`)
	r.all(`Fetched tp=in/1`, `Cut id=2 next=1 records=1 bytes=100`)
	r.want(`Fetched tp=in/3`)
	r.want(`Fetched tp=in/0`)
	if p := r.partition(3); p.Why != "credit" {
		t.Errorf("it waits for %q", p.Why)
	}
	// The longest-waiting partition goes first, whatever its number.
	r.want(`Acked process=1 id=1`, `Drop id=1`, `Deliver process=1 id=3 tp=in/3`, `Commit`)
	// A batch that the process waits with does not count, and its bytes do.
	r.do(`Cut id=3 next=1 records=1 bytes=100`)
	r.want(`Statused process=1 id=3 waiting`)
}

func TestR10_ABatchThatWaitsDoesNotCount(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`StopAsked reason="x"`)
	r = &rig{t: t, core: New(Config{})}
	r.all(`Ticked`, `Launched process=1 pid=1`, `SpecGood process=1 inlets=["in"] outlets=["out"] maxInFlight=1`,
		`Assigned inlet="in" generation=1 starts=[0@0,1@0]`, `Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.want(`Fetched tp=in/1`)
	r.want(`Statused process=1 id=1 waiting error="the sink is away"`, `Deliver process=1 id=2 tp=in/1`)
	if p := r.partition(0); p.LastError != "the sink is away" || p.Why != "retrying" {
		t.Errorf("%+v", p)
	}
}

func TestR10_HeldEmitsAreBounded(t *testing.T) {
	cfg := Config{HoldBatch: 1000, HoldSoft: 1500, HoldHard: 2000}
	emit := func(id, bytes string) string {
		return `Emitted process=1 id=` + id + ` outlet="out" records=1 bytes=` + bytes
	}
	r := running(t, cfg, "[0@0,1@0,2@0,3@0]")
	for i := range 3 {
		r.all(`Fetched tp=in/`+itoa(i), `Cut id=`+itoa(i+1)+` next=1 records=1 bytes=5`)
	}
	r.want(emit("1", "1000"), `Hold id=1`)
	r.want(emit("2", "532"), `Hold id=2`)
	r.want(`Fetched tp=in/3`)
	if p := r.partition(3); p.Why != "held" {
		t.Errorf("above the soft limit it waits for %q", p.Why)
	}
	got := r.do(emit("3", "469"))
	if slices.Contains(got, "Hold id=3") || r.core.Status().State != Ending {
		t.Errorf("over the hard limit: %q", got)
	}
	for i := range 3 {
		if p := r.partition(i); p.Failures != 0 {
			t.Errorf("%v is accused", p.TP)
		}
	}
	// Half as many batches are admitted until as many as before have committed.
	r.all(`StoppedByProcess process=1`, `Acked process=1 id=1`, `Acked process=1 id=2`, `Acked process=1 id=3`)
	r.at(time.Second).all(`Ticked`, `SpecGood process=1 inlets=["in"] outlets=["out"]`, `Cut id=4 next=1 records=1 bytes=5`)
	r.want(`Fetched tp=in/0`)
	// One byte over a batch's own limit accuses its partition.
	r.do(emit("4", "1001"))
	if p := r.partition(3); p.Failures != 1 || r.core.Status().HeldBytes != 0 {
		t.Errorf("%+v", p)
	}
}

// The protocol's own limit, which no setting changes: 64 MiB pass, one byte more fails the batch and accuses its partition.
func TestR10_ABatchHolds64MiBAndNotAByteMore(t *testing.T) {
	for bytes, failures := range map[int]int{64 << 20: 0, 64<<20 + 1: 1} {
		r := running(t, Config{}, "[0@0]")
		r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
		got := r.do(`Emitted process=1 id=1 outlet="out" records=1 bytes=` + itoa(bytes))
		if held := slices.Contains(got, "Hold id=1"); held != (failures == 0) {
			t.Errorf("%d bytes: %q", bytes, got)
		}
		if p := r.partition(0); p.Failures != failures {
			t.Errorf("%d bytes: %d failures", bytes, p.Failures)
		}
	}
}

// A process's max_in_flight: as many batches, and not one more until one is answered.
func TestR10_MaxInFlightBatchesAndNotOneMore(t *testing.T) {
	r := &rig{t: t, core: New(Config{})}
	r.all(`Ticked`, `Launched process=1 pid=1`, `SpecGood process=1 inlets=["in"] outlets=["out"] maxInFlight=2`,
		`Assigned inlet="in" generation=1 starts=[0@0,1@0,2@0]`)
	for i := range 2 {
		if got := r.do(`Fetched tp=in/` + itoa(i)); len(got) == 0 {
			t.Errorf("batch %d is not delivered", i+1)
		}
		r.do(`Cut id=` + itoa(i+1) + ` next=1 records=1 bytes=5`)
	}
	r.want(`Fetched tp=in/2`)
	if got := r.do(`Acked process=1 id=1`); !slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, "Deliver process=1 id=3") }) {
		t.Errorf("the third batch does not follow an ack: %q", got)
	}
}

func TestR10_VoidBatchesThatFillTheCreditEndTheProcess(t *testing.T) {
	r := &rig{t: t, core: New(Config{})}
	r.all(`Ticked`, `Launched process=1 pid=1`, `SpecGood process=1 inlets=["in"] outlets=["out"] maxInFlight=1`,
		`Assigned inlet="in" generation=1 starts=[0@0,1@0]`, `Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`,
		`Revoked inlet="in" partitions=[0] deadline=1s`)
	r.want(`Fetched tp=in/1`)
	at, ok := r.core.Wake()
	if !ok || at != time.Minute {
		t.Fatalf("it wakes at %v, %v", at, ok)
	}
	r.at(time.Minute).want(`Ticked`, `Kill process=1`)
}

func TestR10_BatchesGrowWhileTheProcessIsQuick(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.do(`Fetched tp=in/0`)
	id, first := 1, 0
	round := func(records int, trip time.Duration, next string) {
		t.Helper()
		r.do(`Cut id=` + itoa(id) + ` first=` + itoa(first) + ` next=` + itoa(first+records) + ` records=` + itoa(records) + ` bytes=5 more`)
		first += records
		r.at(r.now + trip)
		got := r.do(`Acked process=1 id=` + itoa(id))
		id++
		if i := slices.IndexFunc(got, func(s string) bool { return strings.Contains(s, "maxRecords="+next+" ") }); i < 0 {
			t.Errorf("not %s records: %q", next, got)
		}
	}
	round(100, 49*time.Millisecond, "200")
	round(200, 0, "400")
	round(399, 0, "400")                   // not full
	round(400, 50*time.Millisecond, "400") // not quick
	round(400, 0, "800")                   //
	round(800, 0, "1000")                  //
	round(1000, 0, "1000")                 // no more
	round(1000, 200*time.Millisecond, "1000")
	round(1000, 201*time.Millisecond, "500")
}

func TestR11_ALookedUpStartIsCommittedBeforeTheFirstDelivery(t *testing.T) {
	r := &rig{t: t, core: New(Config{})}
	r.all(`Ticked`, `Launched process=1 pid=1`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.want(`Assigned inlet="in" generation=1 starts=[0@40?]`, `Seek tp=in/0 offset=40`, `Commit inlet="in" generation=1 sequence=1 offsets=[0@40]`)
	r.want(`Fetched tp=in/0`)
	r.want(`Committed inlet="in" sequence=1 outcome=retry reason="again"`)
	r.at(time.Second).want(`Ticked`, `Commit inlet="in" generation=1 sequence=2 offsets=[0@40]`)
	r.want(`Committed inlet="in" sequence=2`, `Deliver process=1 id=1 tp=in/0 offset=40`)
}

func TestR11_AnOffsetOutsideTheLogBlocksVisibly(t *testing.T) {
	r := running(t, Config{}, "[0@9000,1@0]")
	r.want(`FetchFailed tp=in/0 reason="offset 9000 is outside the log" blocked`)
	if p := r.partition(0); p.Why != "blocked" || p.LastError == "" || p.Since != 0 {
		t.Errorf("%+v", p)
	}
	r.want(`Fetched tp=in/1`, `Deliver process=1 id=1 tp=in/1`)
}

func TestR12_AStaleEventChangesNothingAndIsCounted(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.all(`Exited process=1 reason="exit 1" code=1`)
	r.at(time.Second).all(`Ticked`, `Launched process=2 pid=2`, `SpecGood process=2 inlets=["in"] outlets=["out"]`)
	before := r.core.Status()
	stale := []string{
		`Acked process=1 id=1`, `Emitted process=1 id=1 outlet="out" records=1 bytes=1`, `Failed process=1 id=1 message="x"`,
		`StoppedByProcess process=1`, `Violated process=1 reason="x"`, `Unreachable process=1`, `OutputClosed process=1`,
		`Exited process=1 reason="x"`, `Launched process=1`, `LaunchFailed process=1`, `SpecGood process=1`, `SpecRefused process=1`,
		`Withdrawn process=2 id=1`, `Committed inlet="in" sequence=77`, `Committed inlet="gone" sequence=1`, `EpochRaised`,
		`Fetched tp=in/7`, `Fetched tp=gone/0`, `FetchFailed tp=gone/0`, `Lost inlet="gone"`, `Suspended inlet="gone"`,
		`Revoked inlet="gone" partitions=[1]`, `Assigned inlet="gone" generation=1`,
	}
	for _, e := range stale {
		r.want(e)
	}
	after := r.core.Status()
	if got := int(after.Stale - before.Stale); got != len(stale) {
		t.Errorf("%d stale events, counted %d", len(stale), got)
	}
	after.Stale = before.Stale
	if !statusEqual(before, after) {
		t.Errorf("changed from %+v to %+v", before, after)
	}
}

func TestR12_EqualEventsGiveEqualActions(t *testing.T) {
	script, err := os.ReadFile("testdata/16_unsettled.txt")
	if err != nil {
		t.Fatal(err)
	}
	first, err := replay(string(script))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := replay(string(script)); err != nil || again != first {
			t.Fatalf("another answer: %s %v", firstDifference(again, first), err)
		}
	}
}

func statusEqual(a, b Status) bool {
	pa, pb := a.Partitions, b.Partitions
	a.Partitions, b.Partitions = nil, nil
	return slices.Equal(pa, pb) && slicesOf(a) == slicesOf(b)
}
