package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// Case is one question to a process.
type Case struct {
	// Name is what it is called for good, as "run.echo-preserves-record".
	Name string
	// Sentence says what is right, in one sentence.
	Sentence string
	// Section is where wire/PROTOCOL.md says so.
	Section string
	// Needs is the capability without which there is nothing to ask: "ping", "errors", or "".
	Needs string
	// Env is what the process's environment has besides, as NAME=value; NAME alone is removed.
	Env []string

	ask func(*talk)
}

// Failure is what was wrong.
type Failure struct {
	Expected string `json:"expected"`
	Came     string `json:"came"`
}

// Verdict is what became of a case.
type Verdict string

// The verdicts. NotAsked is no failure: the process does not promise what the case asks for.
const (
	Passed   Verdict = "passed"
	Failed   Verdict = "failed"
	NotAsked Verdict = "not asked"
)

// Result is a case with its verdict. Failure, Trace and Stderr are there where it failed.
type Result struct {
	Case     Case
	Verdict  Verdict
	Why      string // NotAsked: why
	Duration time.Duration
	Failure  *Failure
	// Trace is what was said: S> by the supervisor, P> by the process, -- in between.
	Trace []string
	// Stderr is what the process wrote there, the last 200 lines.
	Stderr []string
}

// Suite is what to ask whom.
type Suite struct {
	// Command is the process: a program and its arguments.
	Command []string
	// Patience is how long a case waits each time for something to happen; 0: 10 s. The
	// launch is waited for six times as long, once, before the first case.
	Patience time.Duration
	// Workers is how many cases, and so processes, run at once; 0: two.
	Workers int
	// Only, where it is not nil, chooses cases by name.
	Only *regexp.Regexp
}

const (
	defaultPatience = 10 * time.Second
	defaultWorkers  = 2
)

// Cases is every case there is, in the order in which they are asked.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{discoveryCases, runCases, stdoutCases, frameCases, sizeCases, valueCases, growthCases, controlCases, stopCases, endCases} {
		all = append(all, group...)
	}
	return all
}

// Chosen is the cases that Only chooses.
func (s *Suite) Chosen() []Case {
	var chosen []Case
	for _, c := range Cases() {
		if s.Only == nil || s.Only.MatchString(c.Name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// ErrNotAsked is wrapped by the errors of Run: no case was asked, because the process is not
// one that can be. They are for who gave the command.
var ErrNotAsked = errors.New("no case was asked")

// Run asks every chosen case and calls each with the results, in the order of Cases, from one
// goroutine at a time. An error is a *supervisor.LaunchError or wraps ErrNotAsked; where ctx
// ends, Run does, with its error. What was launched is gone when it returns.
func (s *Suite) Run(ctx context.Context, each func(Result)) error {
	capabilities, err := s.introduce(ctx)
	if err != nil {
		return err
	}
	cases := s.Chosen()
	next := make(chan int)
	results := make([]chan Result, len(cases))
	for i := range results {
		results[i] = make(chan Result, 1)
	}
	workers := s.Workers
	if workers <= 0 {
		workers = defaultWorkers
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for range workers {
		wg.Go(func() {
			for i := range next {
				results[i] <- s.ask(ctx, cases[i], capabilities)
			}
		})
	}
	wg.Go(func() { // ends when the last case is taken, or with ctx
		defer close(next)
		for i := range cases {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for i := range results {
		select {
		case r := <-results[i]:
			each(r)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// introduce launches the process once, to know that it is the reference streamlet and what it
// promises: a process that is none gets one message instead of a failure a case.
func (s *Suite) introduce(ctx context.Context) (wire.Capabilities, error) {
	t := newTalk(ctx, s.Command, 6*s.patience())
	defer t.end()
	p, err := supervisor.Start(supervisor.Command{Args: s.Command, Env: t.environment()}, t.options())
	if err != nil {
		return wire.Capabilities{}, err
	}
	t.p = p
	t.discover()
	if ctx.Err() != nil {
		return wire.Capabilities{}, ctx.Err()
	}
	if t.failure != nil {
		return wire.Capabilities{}, s.noStreamlet(t)
	}
	name := t.spec.Descriptor.Streamlet.Name
	if name != referenceName {
		return wire.Capabilities{}, fmt.Errorf("%w: the process is the streamlet %q; the suite asks %q, which REFERENCE.md in conformance/ describes", ErrNotAsked, name, referenceName)
	}
	return t.spec.Capabilities, nil
}

// noStreamlet says why a process that did not answer discovery is none.
func (s *Suite) noStreamlet(t *talk) error {
	var b strings.Builder
	fmt.Fprintf(&b, "expected %s; came: %s\n  does it call serve()? does it flush its stdout?", t.failure.Expected, t.failure.Came)
	for _, line := range t.errs.all() {
		b.WriteString("\n  | " + line)
	}
	return fmt.Errorf("%w: %s answers no discovery: %s", ErrNotAsked, strings.Join(s.Command, " "), b.String())
}

func (s *Suite) patience() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return defaultPatience
}

// ask has one case's conversation with a process of its own.
func (s *Suite) ask(ctx context.Context, c Case, promised wire.Capabilities) Result {
	if c.Needs == "ping" && !promised.Ping || c.Needs == "errors" && !promised.Errors {
		return Result{Case: c, Verdict: NotAsked, Why: "it does not promise " + c.Needs}
	}
	began := time.Now()
	t := newTalk(ctx, s.Command, s.patience())
	t.launch(c.Env...)
	if t.failure == nil {
		c.ask(t)
	}
	t.end()
	r := Result{Case: c, Verdict: Passed, Duration: time.Since(began), Failure: t.failure}
	if t.failure != nil {
		r.Verdict, r.Trace, r.Stderr = Failed, t.trace.lines(), t.errs.all()
	}
	return r
}
