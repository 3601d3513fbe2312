package driver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

func TestPlanDefaultsAndWhatIsDeclared(t *testing.T) {
	d := describe("router", []string{"b", "a"}, []string{"z", "y"})
	d.Streamlet.Parameters = []wire.Parameter{{Key: "wait", Type: wire.TypeDuration, Default: "5s"}, {Key: "name"}}
	declared := Declared{
		Pipeline: "shop", Topics: map[string]string{"a": "carts", "z": "valid"},
		Groups: map[string]string{"b": "team"}, Params: map[string]string{"name": "x"}, Inputs: map[string]string{"a": "a.jsonl"},
	}
	got, problems := NewPlan(&declared, &d)
	want := &Plan{
		Pipeline: "shop", Streamlet: "router",
		Inlets: []PlannedInlet{
			{Port: "a", Topic: "carts", Group: "shop.router.a", ClientID: "shop.router.a", Input: "a.jsonl"},
			{Port: "b", Topic: "shop.b", Group: "team", ClientID: "shop.router.b"},
		},
		Outlets: []PlannedOutlet{{Port: "y", Topic: "shop.y", ClientID: "shop.router.y"}, {Port: "z", Topic: "valid", ClientID: "shop.router.z"}},
		Config:  map[string]any{"wait": int64(5000), "name": "x"},
	}
	if !reflect.DeepEqual(got, want) || problems != nil {
		t.Errorf("%+v, %q", got, problems)
	}
	// Without a pipeline's name the streamlet's stands for it.
	got, _ = NewPlan(&Declared{Params: map[string]string{"name": "x"}}, &d)
	if got.Inlets[0].Topic != "router.a" || got.Inlets[0].Group != "router.router.a" {
		t.Errorf("%+v", got.Inlets[0])
	}
}

func TestPlanFindsEveryProblemAtOnce(t *testing.T) {
	answer := describe("app", []string{"a", "b"}, []string{"out"})
	answer.Streamlet.Inlets[0].Contract.Format = "xml"
	answer.Streamlet.Parameters = []wire.Parameter{{Key: "size", Type: wire.TypeInteger}}
	deployed := describe("app", []string{"a"}, []string{"out"})
	plan, problems := NewPlan(&Declared{
		Deployed: &deployed,
		Topics:   map[string]string{"a": "t", "b": "t", "nix": "x"},
		Groups:   map[string]string{"a": "g", "b": "g", "out": "g"},
		Params:   map[string]string{"sise": "1"},
		Inputs:   map[string]string{"out": "f.jsonl"},
	}, &answer)
	if plan != nil {
		t.Errorf("there is a plan: %+v", plan)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{
		`contract.format is "xml"`,   // the descriptor itself
		`"b"`,                        // the deployed one has no such inlet
		`"size"`,                     // not given
		`"sise"`,                     // not declared
		`--topic names "nix"`,        // unknown ports
		`--input names "out"`,        // an outlet takes no input
		`group of inlet names "out"`, // nor has it a group
		`inlets a and b both read topic t as group`, // half each
	} {
		if !strings.Contains(all, want) {
			t.Errorf("not found: %s\nin:\n%s", want, all)
		}
	}
}

// A name that is no topic's is refused before a topic is made of it, each
// cause once; and a streamlet is not fed by itself.
func TestPlanRefusesNamesAndLoops(t *testing.T) {
	answer := describe("app", []string{"in"}, []string{"out", "too"})
	for name, c := range map[string]struct {
		declared Declared
		want     []string
	}{
		"a pipeline with a slash": {Declared{Pipeline: "../x"}, []string{`--pipeline`}},
		"a long pipeline": {Declared{Pipeline: strings.Repeat("p", 246)}, []string{
			"topic of port out: .*250 bytes", "topic of port too: .*250 bytes",
		}},
		"topics":                     {Declared{Topics: map[string]string{"out": "a b", "in": ".."}}, []string{`topic of port in: "\.\."`, `topic of port out: "a b"`}},
		"a group":                    {Declared{Groups: map[string]string{"in": "a\nb"}}, []string{`group of inlet in: "a\\nb"`}},
		"an inlet fed by an outlet":  {Declared{Topics: map[string]string{"in": "same", "too": "same"}}, []string{`inlet in reads topic same, which outlet too writes`}},
		"two outlets with one topic": {Declared{Topics: map[string]string{"out": "same", "too": "same"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			plan, problems := NewPlan(&c.declared, &answer)
			if len(problems) != len(c.want) || (plan == nil) != (len(c.want) > 0) {
				t.Fatalf("%v, %q", plan, problems)
			}
			for i, want := range c.want {
				if !regexp.MustCompile(want).MatchString(problems[i]) {
					t.Errorf("%q does not match %s", problems[i], want)
				}
			}
		})
	}
}

func TestPlanOfAnotherVersionHasOneProblem(t *testing.T) {
	answer := describe("", nil, nil)
	answer.ProtocolVersion = "2.0"
	if plan, problems := NewPlan(&Declared{}, &answer); plan != nil || len(problems) != 1 || !strings.Contains(problems[0], "2.0") {
		t.Errorf("%v, %q", plan, problems)
	}
}

func TestTwoInletsOfATopicInGroupsOfTheirOwn(t *testing.T) {
	answer := describe("app", []string{"a", "b"}, nil)
	if _, problems := NewPlan(&Declared{Topics: map[string]string{"a": "t", "b": "t"}}, &answer); problems != nil {
		t.Errorf("%q", problems)
	}
}

func TestRefusalTellsTheProcessAndPeopleEveryProblem(t *testing.T) {
	bubble(t, func(w *world) {
		w.descriptor.Streamlet.Name = "Bad"
		w.run(func(c *Config) { c.Declared.Topics = map[string]string{"nix": "x"} })
		p := w.answerDiscovery()
		refuse, ok := last(p.take()).(wire.Refuse)
		if !ok || len(refuse.Problems) != 2 {
			t.Fatalf("the process got %v", refuse)
		}
		for _, problem := range refuse.Problems {
			if w.said.count(problem) != 1 {
				t.Errorf("said %d times: %s", w.said.count(problem), problem)
			}
		}
		p.exit(supervisor.Exited{Code: 1})
		if r := w.ended(); r.Code != 1 || !r.Said {
			t.Errorf("%+v", r)
		}
	})
}

func last[T any](all []T) (zero T) {
	if len(all) == 0 {
		return zero
	}
	return all[len(all)-1]
}

func TestRefusalOfMoreThanAFrameHolds(t *testing.T) {
	bubble(t, func(w *world) {
		w.descriptor.Streamlet.Inlets = nil
		for i := range 20_000 {
			w.descriptor.Streamlet.Inlets = append(w.descriptor.Streamlet.Inlets, wire.Port{Name: fmt.Sprintf("Bad%d", i), Contract: wire.Contract{Format: strings.Repeat("ü", 20)}})
		}
		w.descriptor.Streamlet.Inlets[0].Contract.Format = strings.Repeat("ü", 100_000)
		w.run()
		p := w.answerDiscovery()
		refuse, ok := last(p.take()).(wire.Refuse)
		if !ok || len(refuse.Problems) != maxProblems+1 || !strings.HasSuffix(last(refuse.Problems), " more problems") {
			t.Fatalf("the process got %d problems", len(refuse.Problems))
		}
		for _, problem := range refuse.Problems {
			if len(problem) > maxProblemBytes+3 || strings.Contains(problem, "\uFFFD") {
				t.Errorf("a problem of %d bytes: %q", len(problem), problem)
			}
		}
		w.kill()
	})
}

func TestAStartThatNoFrameHoldsIsRefused(t *testing.T) {
	bubble(t, func(w *world) {
		for i := range 4 {
			w.descriptor.Streamlet.Parameters = append(w.descriptor.Streamlet.Parameters, wire.Parameter{Key: fmt.Sprintf("p%d", i)})
		}
		w.run(func(c *Config) {
			c.Declared.Params = map[string]string{}
			for i := range 4 {
				c.Declared.Params[fmt.Sprintf("p%d", i)] = strings.Repeat("x", 1<<20)
			}
		})
		p := w.answerDiscovery()
		if refuse, ok := last(p.take()).(wire.Refuse); !ok || !strings.Contains(refuse.Problems[0], "cannot be started") {
			t.Errorf("the process got %v", refuse)
		}
		w.kill()
	})
}

func TestPrepareThatFailsForGoodEndsTheRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.broker.prepare = func(context.Context, *Plan) error { return errors.New("carts.jsonl: line 3 is no record") }
		w.run()
		p := w.answerDiscovery()
		if r := w.ended(); r.Code != 1 || r.Reason != "carts.jsonl: line 3 is no record" || !r.Said {
			t.Errorf("%+v", r)
		}
		if !p.called("Kill") || len(w.broker.inlets) > 0 {
			t.Error("the process lives or something is consumed")
		}
		if w.said.count("line 3") != 1 {
			t.Errorf("said: %q", w.said.all)
		}
	})
}

func TestNothingIsConsumedBeforeThePreparation(t *testing.T) {
	bubble(t, func(w *world) {
		prepared := make(chan struct{})
		w.broker.prepare = func(ctx context.Context, _ *Plan) error { <-prepared; return nil }
		w.broker.logs["app.in"] = make([][]record.Record, 1)
		w.run()
		w.answerDiscovery()
		if got := w.broker.takeTrace(); len(got) > 0 {
			t.Errorf("%v", got)
		}
		close(prepared)
		if got := w.broker.takeTrace(); !reflect.DeepEqual(got, []string{"Consume app.in"}) {
			t.Errorf("%v", got)
		}
		w.end()
	})
}

func TestPreparationIsReplacedByThatOfANewPlanAndNeverTwoAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.broker.prepare = func(ctx context.Context, plan *Plan) error {
			if plan.Streamlet != "final" {
				<-ctx.Done()
				<-time.After(3 * time.Second) // it is slow to give up
				return ctx.Err()
			}
			return nil
		}
		w.run(func(c *Config) { c.Core.Watch = true })
		// The end of a preparation that was replaced counts for nothing, and
		// whether it gets as far as the loop is chance.
		const reloads = 12
		for i := range reloads {
			w.descriptor = describe(fmt.Sprintf("app%d", i), []string{"from"}, nil)
			p := w.answerDiscovery()
			w.reloads <- "saved"
			p.say(wire.Stopped{})
			p.exit(supervisor.Exited{})
		}
		w.descriptor = describe("final", []string{"from"}, nil)
		w.answerDiscovery()
		if got := w.broker.takeTrace(); len(got) > 0 {
			t.Errorf("%v", got)
		}
		w.pass(3*reloads*time.Second + time.Second)
		if got := w.broker.takeTrace(); !reflect.DeepEqual(got, []string{"Consume final.from"}) {
			t.Errorf("%v", got)
		}
		w.end()
	})
}

func TestPreparationIsEndedWithTheRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.broker.prepare = func(ctx context.Context, _ *Plan) error { <-ctx.Done(); return ctx.Err() }
		w.run()
		w.answerDiscovery()
		w.kill()
		if len(w.broker.prepared) != 1 {
			t.Error("it was not awaited")
		}
	})
}

func TestReloadWithOtherPortsLeavesTheOldAndConsumesTheNew(t *testing.T) {
	bubble(t, func(w *world) {
		w.descriptor = describe("app", []string{"in", "old"}, []string{"left"})
		p := w.running(1, func(c *Config) { c.Core.Watch = true })
		in, old := w.broker.inlet("in"), w.broker.inlet("old")
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		b := p.batch()
		p.say(emitOf(b.ID, "left", "A"), wire.Ack{ID: b.ID})

		w.reloads <- "saved"
		p.say(wire.Stopped{})
		p.exit(supervisor.Exited{})
		// Its outlet now goes elsewhere; what is being written does not.
		w.descriptor = describe("app", []string{"in", "new"}, []string{"left", "more"})
		p = w.answerDiscovery()
		start := last(p.take()).(wire.Start)
		if want := map[string]string{"in": "app.in", "new": "app.new"}; !reflect.DeepEqual(start.Inlets, want) {
			t.Errorf("inlets %v", start.Inlets)
		}
		if !old.isClosed() || in.isClosed() || w.broker.inlet("in") != in {
			t.Error("old was not left, or in not kept")
		}
		w.broker.inlet("new")

		// Events of the inlet that was left are dropped: the core would be
		// confused by a generation of a port that it does not know.
		before := w.snapshot().Stale
		old.assign(7)
		if s := w.snapshot(); s.Stale != before {
			t.Errorf("the core heard of it")
		}
		w.broker.producer.hold(false)
		w.broker.producer.answer(writtenOf(b.ID))
		if got := texts(w.broker.producer.in("app.left")); got != "A" {
			t.Errorf("written was %q", got)
		}
		if in.committedAt(0) != 1 {
			t.Errorf("committed is %d", in.committedAt(0))
		}
		w.end()
	})
}

// The port keeps its name, but the streamlet's changed and with it the topic.
func TestReloadUnderAnotherNameConsumesTheOtherTopic(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.Watch = true })
		w.broker.logs["other.in"] = make([][]record.Record, 1)
		old := w.broker.inlet("in")
		w.broker.producer.hold(true)
		w.add("in", 0, values("a", "b")...)
		b := p.batch()
		p.say(emitOf(b.ID, "left", "A"), wire.Ack{ID: b.ID})
		// One commit never gets its answer: its consumer is left.
		old.mu.Lock()
		old.holdCommit = true
		old.mu.Unlock()
		w.add("in", 0, values("c")...)
		p.say(wire.Ack{ID: p.batch().ID})

		w.reloads <- "saved"
		p.say(wire.Stopped{})
		w.broker.producer.hold(false)
		w.broker.producer.answer(writtenOf(b.ID))
		w.pass(time.Second)
		if len(old.commits) == 0 {
			t.Fatal("no commit is on the way")
		}
		p.exit(supervisor.Exited{})
		w.descriptor = describe("other", []string{"in"}, []string{"left"})
		p = w.answerDiscovery()
		if got := w.broker.inlet("in").planned.Topic; got != "other.in" || !old.isClosed() {
			t.Fatalf("%s is consumed", got)
		}
		p.take()
		w.add("in", 0, values("x")...)
		b = p.batch()
		p.say(emitOf(b.ID, "left", "X"), wire.Ack{ID: b.ID})
		w.pass(2 * time.Second)
		if at := w.broker.inlet("in").committedAt(0); at != 1 {
			t.Errorf("committed is %d", at)
		}
		if got := texts(w.broker.producer.in("app.left")) + "|" + texts(w.broker.producer.in("other.left")); got != "A|X" {
			t.Errorf("written was %s", got)
		}
		w.end()
	})
}
