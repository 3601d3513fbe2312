package delivery

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func slicesOf(s Status) string { return fmt.Sprintf("%+v", s) }

func TestCase12_AnAnswerForABatchThatIsNotInFlightIsAViolation(t *testing.T) {
	for _, event := range []string{
		`Acked process=1 id=1`, `Emitted process=1 id=1 outlet="out" records=1 bytes=1`, `Failed process=1 id=1 message="x" offset=-1`,
		`Acked process=1 id=99`, `Emitted process=1 id=99 outlet="out" records=1`, `Failed process=1 id=99 message="x"`,
		`Emitted process=1 id=2 outlet="elsewhere" records=1`, `StoppedByProcess process=1`, `SpecGood process=1`,
	} {
		t.Run(event, func(t *testing.T) {
			r := running(t, Config{}, "[0@0,1@0]")
			r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`, `Fetched tp=in/1`, `Cut id=2 next=1 records=1 bytes=5`)
			r.acked("1")
			got := r.do(event)
			if len(got) == 0 || !strings.HasPrefix(got[0], `Kill process=1 reason="protocol violation`) {
				t.Errorf("%q", got)
			}
			// What was acked settles all the same.
			r.want(`Written id=1`, `Commit inlet="in"`)
		})
	}
}

func TestWaitDoublesToTheMaximumAndIsReset(t *testing.T) {
	r := &rig{t: t, core: New(Config{ReconnectMax: 4 * time.Second})}
	r.do(`Ticked`)
	for i, wait := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		n := itoa(i + 1)
		r.all(`Launched process=`+n+` pid=1`, `Exited process=`+n+` reason="exit 1" code=1`)
		if at, ok := r.core.Wake(); !ok || at != r.now+wait {
			t.Fatalf("failure %d: waits %v, not %v", i+1, at-r.now, wait)
		}
		r.at(r.now+wait).want(`Ticked`, `Launch process=`+itoa(i+2))
	}
	r.all(`Launched process=6 pid=1`, `SpecGood process=6 inlets=["in"] outlets=["out"]`)
	// It ran exactly twice the maximum: not longer.
	r.at(r.now + 8*time.Second).do(`Exited process=6 reason="exit 1" code=1`)
	if s := r.core.Status(); s.NextDiscovery != r.now+4*time.Second {
		t.Errorf("waits %v", s.NextDiscovery-r.now)
	}
	r.at(r.now+4*time.Second).all(`Ticked`, `Launched process=7 pid=1`, `SpecGood process=7 inlets=["in"] outlets=["out"]`)
	r.at(r.now + 8*time.Second + 1).do(`Exited process=7 reason="exit 1" code=1`)
	if s := r.core.Status(); s.NextDiscovery != r.now+500*time.Millisecond {
		t.Errorf("not reset: waits %v", s.NextDiscovery-r.now)
	}
}

func TestStopInEveryState(t *testing.T) {
	for _, test := range []struct {
		name string
		prep []string
		rest []string // from StopAsked to the exit
		code string
	}{
		{"down", []string{`Exited process=1 reason="exit 1" code=1`}, nil, ""},
		{"launching", []string{`Exited process=1 reason="exit 1" code=1`, `wait`}, []string{`Launched process=2 pid=2`, `Exited process=2 reason="exit 0"`}, ""},
		{"launching, and it fails", []string{`Exited process=1 reason="exit 1" code=1`, `wait`}, []string{`LaunchFailed process=2 reason="gone" code=127`}, ""},
		{"discovering", []string{`Exited process=1 reason="exit 1" code=1`, `wait`, `Launched process=2 pid=2`}, []string{`SpecGood process=2 inlets=["in"]`, `Exited process=2 reason="exit 0"`}, ""},
		{"running", nil, []string{`StoppedByProcess process=1`, `Exited process=1 reason="exit 0"`}, ""},
		{"ending", []string{`Failed process=1 id=1 message="no"`}, []string{`StoppedByProcess process=1`, `Exited process=1 reason="exit 0"`}, ""},
		{"reloading", []string{`ReloadAsked reason="saved"`}, []string{`Failed process=1 id=1 message="no"`, `Exited process=1 reason="exit 0"`}, ""},
		{"killed by a violation", []string{`Acked process=1 id=9`}, []string{`Exited process=1 reason="killed" code=137`}, ""},
		{"a refused commit", []string{`Acked process=1 id=1`}, []string{`Committed inlet="in" sequence=1 outcome=refused reason="no"`, `Exited process=1 reason="exit 0"`}, " code=1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := running(t, Config{}, "[0@0]")
			r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
			for _, e := range test.prep {
				if e == "wait" {
					r.at(time.Second)
					e = "Ticked"
				}
				r.do(e)
			}
			got := r.do(`StopAsked reason="SIGTERM"`)
			for _, e := range test.rest {
				if r.core.stop.done {
					t.Fatalf("it exited before %s", e)
				}
				got = r.do(e)
			}
			if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "Exit"+test.code+" reason=") {
				t.Errorf("no exit: %q, %+v", got, r.core.Status())
			}
			if got := r.do(`StopAsked reason="again"`); got != nil {
				t.Errorf("after the exit: %q", got)
			}
		})
	}
}

func TestStopBudgetWakes(t *testing.T) {
	r := running(t, Config{}, "[0@0]")
	r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
	r.at(100 * time.Second).do(`StopAsked reason="SIGTERM"`)
	for _, after := range []time.Duration{15, 20, 23, 25} {
		at, ok := r.core.Wake()
		if !ok || at != (100+after)*time.Second {
			t.Fatalf("wakes at %v, %v; not at %d s", at, ok, 100+after)
		}
		r.at(at).do(`Ticked`)
	}
	if !r.core.stop.done {
		t.Error("no exit at the end of the budget")
	}
}

func TestCase22_AClosedStdoutWaitsForTheExitThatExplainsIt(t *testing.T) {
	r := running(t, Config{ExitOnFailure: true}, "[0@0]")
	r.want(`OutputClosed process=1`)
	r.at(999*time.Millisecond).want(`Exited process=1 reason="exit 3: fatal" code=3`, `Pause tp=in/0`, `Leave inlet="in"`, `Exit code=3`)

	r = running(t, Config{}, "[0@0]")
	r.at(time.Minute).want(`OutputClosed process=1`)
	if at, ok := r.core.Wake(); !ok || at != 61*time.Second {
		t.Errorf("wakes at %v, %v", at, ok)
	}
	r.at(61*time.Second).want(`Ticked`, `Kill process=1 reason="the process closed its stdout and lives"`)
}

func TestBatchTimeoutKillsAlsoForAVoidBatch(t *testing.T) {
	for _, void := range []bool{false, true} {
		r := running(t, Config{BatchTimeout: 10 * time.Second}, "[0@0,1@0]")
		r.all(`Fetched tp=in/0`, `Cut id=1 next=1 records=1 bytes=5`)
		if void {
			r.do(`Revoked inlet="in" partitions=[0] deadline=1s`)
		}
		if at, ok := r.core.Wake(); !ok || at != 10*time.Second {
			t.Fatalf("wakes at %v, %v", at, ok)
		}
		if got := r.at(10 * time.Second).do(`Ticked`); len(got) == 0 || !strings.HasPrefix(got[0], "Kill process=1") {
			t.Errorf("void %v: %q", void, got)
		}
	}
}

func TestCase63_SavesInARowAreOneReload(t *testing.T) {
	r := &rig{t: t, core: New(Config{Watch: true})}
	r.do(`Ticked`)
	launches, alive := 1, 1
	step := func(e string) {
		for _, a := range r.do(e) {
			if strings.HasPrefix(a, "Launch ") {
				launches++
				alive++
			}
		}
		if alive > 1 {
			t.Fatalf("%d processes after %s", alive, e)
		}
	}
	for range 50 {
		step(`ReloadAsked reason="saved"`) // while launching
	}
	step(`Launched process=1 pid=1`)
	for range 50 {
		step(`ReloadAsked reason="saved"`) // while it is being killed
	}
	alive--
	step(`Exited process=1 reason="killed" code=137`)
	step(`Launched process=2 pid=2`)
	step(`SpecGood process=2 inlets=["in"] outlets=["out"]`)
	for range 50 {
		step(`ReloadAsked reason="saved"`) // while running, then finishing
	}
	step(`StoppedByProcess process=2`)
	alive--
	step(`Exited process=2 reason="exit 0"`)
	if launches != 3 {
		t.Errorf("%d launches", launches)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, bad := range []Config{
		{ReconnectMin: 2, ReconnectMax: 1}, {ReconnectMin: -1}, {BatchTimeout: -1}, {MaxRecords: -1}, {MaxBytes: -1},
		{HoldSoft: 2, HoldHard: 1}, {Stop: StopBudget{Process: 30 * time.Second}}, {Stop: StopBudget{Kill: time.Second}},
	} {
		if bad.Validate() == nil {
			t.Errorf("accepted: %+v", bad)
		}
	}
}

func TestABrokenDriverContractPanics(t *testing.T) {
	for name, events := range map[string][]string{
		"an event between Deliver and Cut": {`Fetched tp=in/0`, `Ticked`},
		"a Cut without a Deliver":          {`Cut id=1 next=1 records=1`},
		"a Cut below the position":         {`Fetched tp=in/0`, `Cut id=1 next=2 records=1`},
		"a write that does not run":        {`Written id=7`},
	} {
		t.Run(name, func(t *testing.T) {
			r := running(t, Config{}, "[0@5]")
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			r.all(events...)
		})
	}
}

// BenchmarkStep is the hot path: a batch delivered, cut, emitted, acked, written
// and committed.
func BenchmarkStep(b *testing.B) {
	for _, partitions := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("%d_partitions", partitions), func(b *testing.B) {
			c := New(Config{})
			var now time.Duration
			var out []Action
			step := func(ev Event) { out = c.Step(out[:0], now, ev) }
			step(Ticked{})
			step(Launched{1, 1})
			step(SpecGood{1, []string{"in"}, []string{"out"}, 32})
			starts := make([]Start, partitions)
			for i := range starts {
				starts[i].Partition = int32(i)
			}
			step(Assigned{"in", 1, false, starts})
			b.ReportAllocs()
			steps, id := 0, uint64(0)
			offsets := make([]int64, partitions)
			for i := 0; b.Loop(); i++ {
				p := i % partitions
				tp := TP{"in", int32(p)}
				now += 10 * time.Millisecond
				id++
				step(Fetched{tp})
				step(Cut{ID: id, First: offsets[p], Next: offsets[p] + 100, Records: 100, Bytes: 10000})
				offsets[p] += 100
				step(Emitted{Process: 1, ID: id, Outlet: "out", Records: 100, Bytes: 10000})
				step(Acked{1, id})
				step(Written{id})
				for _, a := range out {
					if m, ok := a.(Commit); ok {
						step(Committed{"in", m.Sequence, CommitDone, "", false})
						steps++
						break
					}
				}
				c.Wake()
				steps += 5
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}
