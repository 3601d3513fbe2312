package driver

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

func TestFailuresSayWhereAndWhy(t *testing.T) {
	for name, c := range map[string]struct {
		fail    wire.Fail
		records []string
		want    string
	}{
		"an offset":           {wire.Fail{Message: "no total", KindName: "KeyError", HasOffset: true, Offset: 1}, []string{"a", "b"}, "orders/0@1: batch 1 failed: KeyError: no total"},
		"no offset":           {wire.Fail{Message: "no total"}, []string{"a", "b", "c"}, "orders/0, offsets 0 to 2: batch 1 failed: no total"},
		"one record":          {wire.Fail{Message: "no total"}, []string{"a"}, "orders/0@0: batch 1 failed: no total"},
		"a kind alone":        {wire.Fail{KindName: "AssertionError"}, []string{"a"}, "orders/0@0: batch 1 failed: AssertionError"},
		"nothing":             {wire.Fail{}, []string{"a"}, "orders/0@0: batch 1 failed: the process gave no reason"},
		"a place of its own":  {wire.Fail{Message: "in/7: gone (in/7)"}, []string{"a"}, "orders/0@0: batch 1 failed: in/7: gone (in/7)"},
		"a batch of its own":  {wire.Fail{Message: "batch 9"}, []string{"a"}, "orders/0@0: batch 1 failed: batch 9"},
		"the first of a kind": {wire.Fail{Message: "x", HasOffset: true}, []string{"a", "b"}, "orders/0@0: batch 1 failed: x"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.broker.logs["orders"] = append(w.broker.logs["orders"], nil)
				w.run(func(c *Config) { c.Declared.Topics = map[string]string{"in": "orders"} })
				p := w.answerDiscovery()
				w.add("in", 0, values(c.records...)...)
				c.fail.ID = p.batch().ID
				p.say(c.fail)
				if want := "failed inlet in: " + c.want; len(w.said.warn) != 2 || w.said.warn[0] != want || !strings.HasPrefix(w.said.warn[1], "convicted a ") {
					t.Errorf("said %q\nwant %q", w.said.warn, want)
				}
				w.kill()
			})
		})
	}
}

// shown keeps what Config.Detail gets.
type shown struct {
	mu  sync.Mutex
	all []string
}

func (s *shown) detail(lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, lines)
}

func (s *shown) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.all, "; ")
	s.all = nil
	return all
}

func TestDetailIsShownOnceForARecordUntilItChanges(t *testing.T) {
	bubble(t, func(w *world) {
		var s shown
		p := w.running(2, func(c *Config) { c.Detail = s.detail })
		w.add("in", 0, values("a")...)
		for i, step := range []struct{ detail, want string }{
			{"at line 1\n", "at line 1"},
			{"at line 1\n", ""},
			{"at line 2\n", "at line 2"},
			{"", ""},
			{"at line 2\n", ""},
		} {
			p.say(wire.Fail{ID: p.batch().ID, Message: "no total", Detail: step.detail}, wire.Stopped{})
			if got := s.take(); got != step.want {
				t.Errorf("failure %d showed %q, want %q", i+1, got, step.want)
			}
			w.pass(time.Minute)
			p = w.answerDiscovery()
		}
		// A batch that nobody waits for any more fails as it likes.
		p.say(wire.Fail{ID: 1, Detail: "late"})
		if got := s.take(); got != "" {
			t.Errorf("a batch that was answered showed %q", got)
		}
		// A new process may have new code.
		w.pass(time.Minute)
		p = w.answerDiscovery()
		p.say(wire.Fail{ID: p.batch().ID, Message: "no total", Detail: "at line 2"})
		if got := s.take(); got != "at line 2" {
			t.Errorf("the new process showed %q", got)
		}
		w.kill()
	})
}

// A mistake in the code fails on every partition and is shown once; two poisoned
// partitions that fail by turns show what each has to say once.
func TestDetailIsShownOnceForAllPartitions(t *testing.T) {
	bubble(t, func(w *world) {
		var s shown
		p := w.running(2, func(c *Config) { c.Detail = s.detail })
		w.add("in", 0, values("a")...)
		w.add("in", 1, values("b")...)
		for i, step := range []struct {
			partition    int32
			detail, want string
		}{
			{0, "the same", "the same"},
			{1, "the same", ""},
			{0, "of 0", "of 0"},
			{1, "of 1", "of 1"},
			{0, "of 0", ""},
			{1, "of 1", ""},
		} {
			batches := p.batches()
			if len(batches) == 2 && batches[0].Partition != step.partition {
				batches[0], batches[1] = batches[1], batches[0]
			}
			if len(batches) == 0 || batches[0].Partition != step.partition {
				t.Fatalf("failure %d: the batches %v came", i+1, batches)
			}
			p.say(wire.Fail{ID: batches[0].ID, Message: "no total", Detail: step.detail}, wire.Stopped{})
			for _, void := range batches[1:] {
				p.say(wire.Ack{ID: void.ID}) // it frees its partition
			}
			if got := s.take(); got != step.want {
				t.Errorf("failure %d showed %q, want %q", i+1, got, step.want)
			}
			w.pass(time.Minute)
			p = w.answerDiscovery()
		}
		w.kill()
	})
}

func TestDetailIsBounded(t *testing.T) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	got := strings.Split(boundedDetail(strings.Join(lines, "\r\n")+"\n\n"), "\n")
	if len(got) != 51 || got[0] != "line 0" || got[9] != "line 9" || got[10] != "... 950 lines left out ..." || got[50] != "line 999" {
		t.Errorf("%d lines: %q", len(got), got)
	}
	long := boundedDetail(strings.Repeat("\u00e9", 2000))
	if len(long) > maxDetailLine+3 || !strings.HasSuffix(long, "\u00e9...") {
		t.Errorf("a line of %d bytes ends with %q", len(long), long[len(long)-8:])
	}
	if got := boundedDetail("a"); got != "a" {
		t.Errorf("%q", got)
	}
}

func TestExitNamesTheMissingSDK(t *testing.T) {
	for line, want := range map[string]bool{
		"ModuleNotFoundError: No module named 'ankka_flow'": true,
		"ModuleNotFoundError: No module named 'ankka'":      false,
	} {
		bubble(t, func(w *world) {
			w.run()
			w.proc().exit(supervisor.Exited{Code: 1, LastLines: []string{"Traceback (most recent call last):", line}})
			if w.said.has("PYTHONPATH=sdk/python/src") != want || !w.said.has("process exit 1: app") {
				t.Errorf("%s: %q", line, w.said.all)
			}
			w.kill()
		})
	}
}

func TestCase06_AHalfFrameIsSaidOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		half := wire.SpecExpected("half a frame") // its text is what counts
		p.events <- supervisor.Broken{Err: half}
		p.exit(supervisor.Exited{HalfFrame: half})
		if n := w.said.count(half.Error()); n != 1 {
			t.Errorf("said %d times: %q", n, w.said.all)
		}
		w.kill()
	})
}

// Before another exit than 0 nothing else has told of it.
func TestCase06_AHalfFrameBeforeACrashIsSaid(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		half := wire.SpecExpected("half a frame")
		p.exit(supervisor.Exited{Code: 3, HalfFrame: half})
		if n := w.said.count(half.Error()); n != 1 {
			t.Errorf("said %d times: %q", n, w.said.all)
		}
		w.kill()
	})
}

// With two failures before the end, the one that the run ends for was said too.
func TestExitOnFailureSaysEachOfTwoOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(2, func(c *Config) { c.Core.ExitOnFailure = true })
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		w.add("in", 1, values("b")...)
		p.say(emitOf(1, "left", "A"), wire.Ack{ID: 1}, emitOf(2, "left", "B"), wire.Ack{ID: 2})
		w.broker.producer.answer(delivery.Refused{ID: 1, Reason: "MESSAGE_TOO_LARGE", Accused: []delivery.TP{{Inlet: "in"}}})
		w.broker.producer.answer(delivery.Refused{ID: 2, Reason: "MESSAGE_TOO_LARGE", Accused: []delivery.TP{{Inlet: "in", Partition: 1}}})
		p.say(wire.Stopped{})
		p.exit(supervisor.Exited{})
		r := w.ended()
		if r.Code != 1 || !r.Said {
			t.Errorf("ended with %+v", r)
		}
		for id := 1; id <= 2; id++ {
			if w.said.count(fmt.Sprintf("failed inlet in: app.in/%d@0: the write of batch %d was refused", id-1, id)) != 1 {
				t.Errorf("%q", w.said.all)
			}
		}
	})
}

func TestCase19_SlowDiscoveryIsSaidOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.run(func(c *Config) { c.Core.DiscoveryTimeout = time.Minute })
		w.pass(SlowDiscovery - time.Millisecond)
		if w.said.has("no answer to discovery yet") {
			t.Error("it was said too early")
		}
		w.pass(2 * time.Millisecond)
		w.pass(20 * time.Second)
		if w.said.count("process no answer to discovery yet; ") != 1 || !w.said.has("It has 1m0s in all") {
			t.Errorf("%q", w.said.all)
		}
		w.answerDiscovery()
		w.pass(time.Minute)
		if w.said.count("no answer to discovery yet") != 1 {
			t.Errorf("%q", w.said.all)
		}
		w.end()
	})
}

func TestTheLastCommitsAreSaid(t *testing.T) {
	for name, c := range map[string]struct {
		more  int
		after time.Duration
		want  string
	}{
		"at once":             {0, 0, "committed 2 in, 2 out, 0 behind"},
		"some are behind":     {3, 0, "committed 2 in, 2 out, 3 behind"},
		"after the last line": {0, time.Minute, "committed 2 in, 2 out, 0 behind"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				w.add("in", 0, values("a", "b")...)
				id := p.batch().ID
				p.say(emitOf(id, "left", "A", "B"))
				for range c.more {
					w.add("in", 0, values("more")...)
				}
				p.say(wire.Ack{ID: id})
				w.pass(c.after)
				p.take()
				w.stops <- "asked"
				if c.more > 0 { // the next batch is with it already
					w.pass(time.Second)
					p.say(wire.Fail{ID: id + 1, Message: "not in time"})
				}
				p.say(wire.Stopped{})
				p.exit(supervisor.Exited{})
				w.ended()
				if w.said.count("committed ") != 1 || !w.said.has(c.want) {
					t.Errorf("want %q once: %q", c.want, w.said.all)
				}
			})
		})
	}
}
