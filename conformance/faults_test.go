package conformance

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ankka-flow/wire"
)

// TestMain is also the wrong process: with its name as the first argument, and a fault's as the
// second.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "wrong" {
		wrongMain(os.Args[2])
	}
	os.Exit(m.Run())
}

// allFaults, in the environment, asks every fault every case, some minutes. Without it a fault
// is asked the cases that should find it, and every twelfth of the others, each fault others.
const allFaults = "CONFORMANCE_ALL_FAULTS"

const sample = 12

// faultTable is testdata/faults.txt.
func faultTable(t *testing.T) (names []fault, finders map[fault][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	finders = map[fault][]string{}
	for line := range strings.Lines(string(text)) {
		if name, cases, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			names = append(names, fault(name))
			finders[fault(name)] = strings.Fields(cases)
			slices.Sort(finders[fault(name)])
		}
	}
	return names, finders
}

// wrongSuite asks the wrong process. Nothing that it is asked makes it wait for its patience.
func wrongSuite(f fault) *Suite {
	return &Suite{Command: []string{os.Args[0], "wrong", string(f)}, Patience: time.Minute}
}

// TestAProcessWithoutAFaultPassesEveryCase: the wrong process, when it is right.
func TestAProcessWithoutAFaultPassesEveryCase(t *testing.T) {
	err := wrongSuite("none").Run(t.Context(), func(r Result) {
		if r.Verdict != Passed {
			t.Errorf("%s: %s", r.Case.Name, resultText(r))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryFaultIsFoundByItsCasesAlone: a fault fails exactly the cases of the table.
func TestEveryFaultIsFoundByItsCasesAlone(t *testing.T) {
	names, finders := faultTable(t)
	type question struct {
		of fault
		c  Case
	}
	var questions []question
	for i, f := range names {
		for j, c := range Cases() {
			if os.Getenv(allFaults) != "" || slices.Contains(finders[f], c.Name) || (i+j)%sample == 0 {
				questions = append(questions, question{f, c})
			}
		}
	}
	next := make(chan question)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for q := range next {
				r := wrongSuite(q.of).ask(context.Background(), q.c, wire.Capabilities{Ping: true})
				if want := slices.Contains(finders[q.of], q.c.Name); want != (r.Verdict == Failed) {
					t.Errorf("the fault %q: should %s find it? %v. %s", q.of, q.c.Name, want, resultText(r))
				}
			}
		})
	}
	for _, q := range questions {
		next <- q
	}
	close(next)
	wg.Wait()
	t.Logf("%d faults, %d questions", len(names), len(questions))
}

// TestEveryCaseFindsAFault: a case that cannot fail asks nothing.
func TestEveryCaseFindsAFault(t *testing.T) {
	names, finders := faultTable(t)
	found := map[string]bool{}
	for _, f := range names {
		if len(finders[f]) == 0 {
			t.Errorf("no case finds the fault %q", f)
		}
		for _, name := range finders[f] {
			found[name] = true
		}
	}
	for _, c := range Cases() {
		if !found[c.Name] {
			t.Errorf("no fault is there for %s", c.Name)
		}
		delete(found, c.Name)
	}
	for name := range found {
		t.Errorf("testdata/faults.txt has %s, which is no case", name)
	}
}

// TestSilence: a process that waits for ever fails its case when the patience is over, and is
// gone then.
func TestSilence(t *testing.T) {
	for f, name := range map[fault]string{
		"one-lock-for-all":     "stdio.reads-while-writing",
		"goes-on-after-refuse": "discovery.refused-exits",
		"by-hand-goes-on":      "stdio.started-by-hand",
		"begins-when-broken":   "stdio.cannot-begin",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			s := wrongSuite(f)
			s.Patience = 2 * time.Second
			all := Cases()
			c := all[slices.IndexFunc(all, func(c Case) bool { return c.Name == name })]
			r := s.ask(t.Context(), c, wire.Capabilities{Ping: true})
			if r.Verdict != Failed || !strings.Contains(r.Failure.Came, "nothing for 2s") {
				t.Errorf("%s", resultText(r))
			}
		})
	}
}

// TestWhatIsNotPromisedIsNotAsked: a process that does not answer pings fails nothing for it.
func TestWhatIsNotPromisedIsNotAsked(t *testing.T) {
	count := map[Verdict]int{}
	for _, c := range Cases() {
		if c.Needs == "ping" {
			r := wrongSuite("no-ping").ask(t.Context(), c, wire.Capabilities{})
			count[r.Verdict]++
		}
	}
	if count[NotAsked] != 2 || len(count) != 1 {
		t.Errorf("verdicts %v, want 2 not asked", count)
	}
}
