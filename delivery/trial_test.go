package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// again brings the conversation back after a crash of process n-1 at r.now, with
// what was fetched meanwhile.
func (r *rig) again(n int, after time.Duration, fetched ...string) (all []string) {
	r.t.Helper()
	p := itoa(n)
	r.at(r.now + after)
	all = append(all, r.do(`Ticked`)...)
	for _, tp := range fetched {
		all = append(all, r.do(`Fetched tp=`+tp)...)
	}
	all = append(all, r.do(`Launched process=`+p+` pid=1`)...)
	return append(all, r.do(`SpecGood process=`+p+` inlets=["in"] outlets=["out"] maxInFlight=8`)...)
}

func delivers(actions []string, what string) bool {
	return slices.ContainsFunc(actions, func(a string) bool { return strings.HasPrefix(a, "Deliver ") && strings.Contains(a, what) })
}

// crashed is a rig in which three partitions with two records each were with the
// process when it crashed.
func crashed(t *testing.T) *rig {
	r := running(t, Config{}, "[0@0,1@0,2@0,3@0]")
	for i := range 3 {
		r.all(`Fetched tp=in/`+itoa(i), `Cut id=`+itoa(i+1)+` next=2 records=2 bytes=5`)
	}
	r.do(`Exited process=1 reason="killed by SIGSEGV" code=139`)
	return r
}

func TestTrialIsAloneAndTheCrashInItConvicts(t *testing.T) {
	r := crashed(t)
	for i := range 3 {
		if p := r.partition(i); p.Standing != "accused" {
			t.Fatalf("%+v", p)
		}
	}
	got := r.again(2, 500*time.Millisecond, "in/0", "in/1", "in/2")
	if !delivers(got, "tp=in/0 attempt=2 maxRecords=2 ") {
		t.Fatalf("no trial with its old batch whole: %q", got)
	}
	r.do(`Cut id=4 next=2 records=2 bytes=5`)
	r.want(`Fetched tp=in/3`) // not accused, and kept out
	if p := r.partition(3); p.Why != "paused" {
		t.Errorf("it waits for %q", p.Why)
	}
	r.do(`Exited process=2 reason="killed by SIGSEGV" code=139`)
	for i, standing := range []string{"convicted", "", "", ""} {
		if p := r.partition(i); p.Standing != standing {
			t.Errorf("in/%d is %q, not %q", i, p.Standing, standing)
		}
	}
	// The others go on after 500 ms, though it was the second failure.
	got = r.again(3, 500*time.Millisecond, "in/1", "in/2", "in/3", "in/0")
	if !delivers(got, "tp=in/3") && !delivers(got, "tp=in/1") {
		t.Errorf("%q", got)
	}
}

func TestTrialEndsAfterASecondAndTheOthersResume(t *testing.T) {
	r := crashed(t)
	r.again(2, 500*time.Millisecond, "in/0", "in/1")
	r.do(`Cut id=4 next=2 records=2 bytes=5`)
	r.want(`Fetched tp=in/3`)
	if at, ok := r.core.Wake(); !ok || at != r.now+time.Second {
		t.Fatalf("wakes at %v", at)
	}
	r.at(r.now+time.Second).want(`Ticked`, `Deliver process=2 id=5 tp=in/3`)
	r.do(`Cut id=5 next=1 records=1 bytes=5`)
	// The next one begins when the others had as long; the process does not drain.
	r.at(r.now + time.Second).want(`Ticked`)
	if p := r.partition(1); p.Why != "trial" {
		t.Errorf("in/1 waits for %q", p.Why)
	}
	// It crashes while the process drains: nobody is alone, and nobody is found.
	r.do(`Exited process=2 reason="killed by SIGSEGV" code=139`)
	for i, standing := range []string{"accused", "accused", "accused", "accused"} {
		if p := r.partition(i); p.Standing != standing {
			t.Errorf("in/%d is %q, not %q", i, p.Standing, standing)
		}
	}
	if s := r.core.Status(); s.NextDiscovery != r.now+time.Second {
		t.Errorf("found nobody, and waits %v", s.NextDiscovery-r.now)
	}
	if a := r.core.partition(TP{"in", 0}).charge.alone; a != 2*time.Second {
		t.Errorf("the next trial of in/0 is alone for %v", a)
	}
	// Those tried least recently come first.
	if got := r.again(3, time.Second, "in/0", "in/1", "in/2", "in/3"); !delivers(got, "tp=in/1") {
		t.Errorf("%q", got)
	}
}

func TestTrialIsPutOffFiveTimesAndThenGoesBesideTheOthers(t *testing.T) {
	r := crashed(t)
	r.again(2, 500*time.Millisecond, "in/0", "in/1")
	r.do(`Cut id=4 next=2 records=2 bytes=5`) // and it works for ten minutes
	began := r.now
	var got []string
	for !delivers(got, "tp=in/1") {
		at, ok := r.core.Wake()
		if !ok || at > began+time.Minute {
			t.Fatalf("never beside the others: wakes at %v %v", at, ok)
		}
		got = r.at(at).do(`Ticked`)
	}
	// 1 s alone, 250 ms for the others, six drains, 500 ms to 8 s between them.
	if took := r.now - began; took != 22750*time.Millisecond {
		t.Errorf("after %v", took)
	}
	r.do(`Cut id=5 next=2 records=2 bytes=5`)
	// In its own second it is what ended the process, beside one that drained not.
	r.do(`Exited process=2 reason="killed by SIGSEGV" code=139`)
	if p := r.partition(1); p.Standing != "convicted" || r.partition(0).Standing != "" {
		t.Errorf("%+v", p)
	}
}

// failsFor lets the record at in/0@0 end the process n times, which then takes so
// long to start, and returns how long after each failure it was tried again.
func (r *rig) failsFor(n int, start time.Duration) (after []time.Duration) {
	r.t.Helper()
	for k := 1; k <= n; k++ {
		failedAt := r.now
		r.do(`Exited process=` + itoa(k) + ` reason="killed by SIGSEGV" code=139`)
		if tries := r.partition(0).Tries; tries != k {
			r.t.Fatalf("%d tries after %d failures", tries, k)
		}
		r.at(r.now + 500*time.Millisecond).do(`Ticked`)
		r.at(r.now + start)
		got := r.all(`Launched process=`+itoa(k+1)+` pid=1`, `SpecGood process=`+itoa(k+1)+` inlets=["in"] outlets=["out"]`)
		for i := 0; !delivers(got, "tp=in/0"); i++ {
			if got = r.do(`Fetched tp=in/0`); delivers(got, "tp=in/0") {
				break
			}
			at, ok := r.core.Wake()
			if !ok || i == 10 {
				r.t.Fatalf("try %d never comes", k+1)
			}
			if next := r.partition(0).NextTry; next > r.now && at > next {
				r.t.Errorf("try %d is said to come at %v, and it wakes at %v", k+1, next, at)
			}
			got = r.at(at).do(`Ticked`)
		}
		after = append(after, r.now-failedAt)
		r.do(`Cut id=` + itoa(k+1) + ` next=1 records=1 bytes=5`)
	}
	return after
}

// Three seconds in all are free: then a try waits ten times as
// long as the last failure took from the others, so that it is a tenth of the time.
func TestConvictIsSpacedByWhatItsFailuresCost(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		start time.Duration
		want  []time.Duration
	}{
		{100 * ms, []time.Duration{600 * ms, 1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}},
		{500 * ms, []time.Duration{s, s, 2 * s, 6 * s, 10 * s, 16 * s, 30 * s}},
		{20 * s, []time.Duration{175 * s, 205 * s, 205 * s, 205 * s}},
	} {
		t.Run(c.start.String(), func(t *testing.T) {
			r := running(t, Config{}, "[0@0,1@0]")
			r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
			if got := r.failsFor(len(c.want), c.start); !slices.Equal(got, c.want) {
				t.Errorf("tried again after %v, want %v", got, c.want)
			}
		})
	}
}

// Where everything is convicted there is nobody to spare.
func TestConvictIsNotSpacedWithoutOthers(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	want := []time.Duration{20500 * time.Millisecond, 20500 * time.Millisecond, 20500 * time.Millisecond, 20500 * time.Millisecond, 20500 * time.Millisecond, 20500 * time.Millisecond, 30 * time.Second}
	if got := r.failsFor(len(want), 20*time.Second); !slices.Equal(got, want) {
		t.Errorf("tried again after %v, want %v", got, want)
	}
}

// What a trial keeps the others out for is part of what its failure costs.
func TestSpacingCountsTheTrialItself(t *testing.T) {
	r := running(t, Config{BatchTimeout: 5 * time.Second}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	for n := 2; n <= 3; n++ {
		r.at(r.now + time.Second).do(`Ticked`)
		r.at(r.now + 4*time.Second).do(`Ticked`)
		r.do(`Exited process=` + itoa(n-1) + ` reason="killed"`)
		r.again(n, 500*time.Millisecond)
		r.at(r.now + 30*time.Second).do(`Ticked`)
		r.want(`Fetched tp=in/0`, `Deliver process=`+itoa(n)+` id=`+itoa(n)+` tp=in/0`)
		r.do(`Cut id=` + itoa(n) + ` next=1 records=1 bytes=5`)
	}
	// 500 ms to begin again the first time; the second time its trial kept the
	// others out for a second besides.
	if cost := r.core.convicts.cost; cost != 1500*time.Millisecond {
		t.Errorf("the second failure cost %v", cost)
	}
}

func TestConvictWaitsForWhatItsFailureVoided(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`, `Fetched tp=in/1`, `Cut id=2 next=9 records=9 bytes=5`)
	r.all(`Failed process=1 id=1 message="no"`, `StoppedByProcess process=1`)
	r.at(time.Second).all(`Ticked`, `Fetched tp=in/0`)
	r.do(`SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.at(10 * time.Minute).want(`Ticked`)
	r.want(`Acked process=1 id=2`, `Seek tp=in/1`) // the void one
	r.want(`Fetched tp=in/1`, `Deliver process=1 id=3 tp=in/1`)
	r.do(`Cut id=3 next=9 records=9 bytes=5`)
	r.at(20*time.Minute).want(`Acked process=1 id=3`, `Drop id=3`, `Commit`)
	r.want(`Committed inlet="in" sequence=1`)
	// It cost the other one ten minutes, of which three seconds are free.
	at, ok := r.core.Wake()
	if want := 10 * (10*time.Minute - allowance); !ok || at != want || r.partition(0).NextTry != want {
		t.Fatalf("wakes at %v, %+v", at, r.partition(0))
	}
	r.at(at).want(`Ticked`, `Deliver process=1 id=4 tp=in/0 attempt=2 maxRecords=1 `)
}

func TestConvictIsAcquittedPastTheOldEndAndAReloadPardons(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=2 records=2 bytes=5`)
	for n := 1; n <= 6; n++ {
		r.do(`Failed process=1 id=` + itoa(n) + ` message="no"`)
		r.do(`StoppedByProcess process=1`)
		r.at(r.now+time.Second).all(`Ticked`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
		if n == 6 {
			break
		}
		r.at(r.now + time.Minute).do(`Ticked`)
		r.want(`Fetched tp=in/0`, `Deliver process=1 id=`+itoa(n+1)+` tp=in/0`)
		r.do(`Cut id=` + itoa(n+1) + ` next=1 records=1 bytes=5`)
	}
	if p := r.partition(0); p.Tries != 6 || p.Why != "convicted" {
		t.Fatalf("%+v", p)
	}
	r.do(`ReloadAsked reason="saved"`)
	r.all(`StoppedByProcess process=1`, `Exited process=1 reason="exit 0"`, `Fetched tp=in/0`, `Launched process=2 pid=2`)
	got := r.do(`SpecGood process=2 inlets=["in"] outlets=["out"]`)
	if !delivers(got, "tp=in/0") {
		t.Fatalf("not at once after the save: %q, %+v", got, r.partition(0))
	}
	r.do(`Cut id=7 next=1 records=1 bytes=5 more`)
	got = r.do(`Acked process=2 id=7`)
	if !delivers(got, "offset=1 attempt=1 maxRecords=1 ") {
		t.Errorf("%q", got)
	}
	r.all(`Cut id=8 first=1 next=2 records=1 bytes=5`, `Committed inlet="in" sequence=1`)
	if p := r.partition(0); p.Standing != "convicted" {
		t.Errorf("acquitted before the old end: %+v", p)
	}
	r.do(`Acked process=2 id=8`)
	r.at(r.now+time.Second).all(`Ticked`, `Committed inlet="in" sequence=2`)
	if p := r.partition(0); p.Standing != "" {
		t.Errorf("not acquitted: %+v", p)
	}
}

func TestLosingAPartitionEndsItsAccusation(t *testing.T) {
	r := crashed(t)
	r.do(`Lost inlet="in"`)
	r.do(`Assigned inlet="in" generation=9 starts=[0@0,1@0,2@0]`)
	if p := r.partition(0); p.Standing != "" || len(r.core.trials.docket) != 0 {
		t.Errorf("%+v", p)
	}
}

// What a partition lost counts for nothing any more once it is convicted itself:
// otherwise it would grow for as long as it waits.
func TestADebtEndsWithTheConviction(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`, `Fetched tp=in/1`, `Cut id=2 next=1 records=1 bytes=5`)
	r.all(`Failed process=1 id=1 message="no"`, `StoppedByProcess process=1`, `Acked process=1 id=2`)
	r.do(`Fetched tp=in/1`)
	r.at(time.Second).all(`Ticked`, `SpecGood process=1 inlets=["in"] outlets=["out"]`, `Cut id=3 next=1 records=1 bytes=5`)
	r.do(`Failed process=1 id=3 message="no"`)
	if n := len(r.core.convicts.debts); n != 0 {
		t.Errorf("%d debts", n)
	}
}

// A trial that another failure ends is none: it is due again.
func TestATrialWithoutAnAnswerIsDueAgain(t *testing.T) {
	r := crashed(t)
	r.again(2, 500*time.Millisecond, "in/0", "in/1", "in/2")
	r.all(`Cut id=4 next=2 records=2 bytes=5`, `Violated process=2 reason="half a frame"`, `Exited process=2 reason="killed"`)
	if !r.core.partition(TP{"in", 0}).charge.due {
		t.Errorf("%+v", r.partition(0))
	}
}

// A crash while a convict's later record is beside the others is no more than a
// suspicion: the record is tried at once, alone, and is not said to be bad.
func TestAConvictsLaterRecordIsNamedByATrialOnly(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=9 records=9 bytes=5`, `Failed process=1 id=1 message="no"`, `StoppedByProcess process=1`)
	r.at(time.Second).all(`Ticked`, `Fetched tp=in/0`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.all(`Cut id=2 next=1 records=1 bytes=5 more`, `Acked process=1 id=2`) // its trial
	r.all(`Cut id=3 first=1 next=2 records=1 bytes=5`, `Committed inlet="in" sequence=1`)
	r.all(`Fetched tp=in/1`, `Cut id=4 next=1 records=1 bytes=5`)
	r.do(`Exited process=1 reason="killed by SIGSEGV" code=139`)
	if p := r.partition(0); p.Standing != "convicted" || p.Suspect != 0 || p.Tries != 1 || p.NextTry > 0 {
		t.Errorf("%+v", p)
	}
	if p := r.partition(1); p.Standing != "" {
		t.Errorf("%+v", p)
	}
	got := r.again(2, 500*time.Millisecond, "in/0")
	if !delivers(got, "tp=in/0 offset=1 attempt=2 maxRecords=1 ") {
		t.Fatalf("%q", got)
	}
	r.do(`Cut id=5 first=1 next=2 records=1 bytes=5`)
	r.do(`Exited process=2 reason="killed by SIGSEGV" code=139`)
	if p := r.partition(0); p.Standing != "convicted" || p.Suspect != 1 || p.Tries != 1 {
		t.Errorf("alone, it is known: %+v", p)
	}
}

// The answer to the commit past what failed may be lost with the generation: where
// the partition comes back there, it is acquitted.
func TestAConvictIsAcquittedByTheNextGenerationsStart(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`, `Failed process=1 id=1 message="no"`, `StoppedByProcess process=1`)
	r.at(time.Second).all(`Ticked`, `Fetched tp=in/0`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.all(`Cut id=2 next=1 records=1 bytes=5`, `Acked process=1 id=2`, `Suspended inlet="in"`)
	r.do(`Assigned inlet="in" generation=2 continues starts=[0@1]`)
	if p := r.partition(0); p.Standing != "" || len(r.core.trials.docket) > 0 {
		t.Errorf("%+v", p)
	}
}

// A trial lasts until it is written: a refusal of its bytes must not meet another's.
func TestATrialEndsWhenItIsWritten(t *testing.T) {
	r := crashed(t)
	r.again(2, 500*time.Millisecond, "in/0")
	r.all(`Cut id=4 next=2 records=2 bytes=40`, `Emitted process=2 id=4 outlet="out" records=2 bytes=40`)
	r.want(`Fetched tp=in/3`)
	r.want(`Acked process=2 id=4`, `Write id=4`)
	if p := r.partition(3); p.Why != "paused" {
		t.Errorf("it waits for %q", p.Why)
	}
	if got := r.do(`Written id=4`); !delivers(got, "tp=in/3") {
		t.Errorf("%q", got)
	}
}

// Whose failure it is is known of a convict: where the process does not drain its
// trial goes beside the others after a second, and is not put off.
func TestAConvictIsNotPutOff(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`, `Failed process=1 id=1 message="no"`, `StoppedByProcess process=1`)
	r.at(time.Second).all(`Ticked`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.all(`Fetched tp=in/1`, `Cut id=2 next=1 records=1 bytes=5`) // for ten minutes
	r.at(1100 * time.Millisecond).all(`Fetched tp=in/0`)
	if p := r.partition(0); p.Why != "trial" {
		t.Errorf("it waits for %q", p.Why)
	}
	r.at(2100*time.Millisecond).want(`Ticked`, `Deliver process=1 id=3 tp=in/0 attempt=2 maxRecords=1`)
}

// What was void comes again in smaller batches where they take long: one of them
// committed is enough.
func TestADebtIsPaidByASmallerBatch(t *testing.T) {
	r := running(t, Config{}, "[0@0,1@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=9 records=9 bytes=5`, `Fetched tp=in/1`, `Cut id=2 next=100 records=100 bytes=5`)
	r.all(`Failed process=1 id=1 message="no"`, `StoppedByProcess process=1`, `Acked process=1 id=2`)
	r.at(time.Second).all(`Ticked`, `Fetched tp=in/0`, `SpecGood process=1 inlets=["in"] outlets=["out"]`)
	r.all(`Fetched tp=in/1`, `Cut id=3 next=1 records=1 bytes=5`, `Acked process=1 id=3`)
	r.want(`Committed inlet="in" sequence=1`, `Deliver process=1 id=4 tp=in/0 attempt=2 maxRecords=1`)
}
