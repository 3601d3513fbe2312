package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/scripts/checker"
)

// options are the command line's.
type options struct {
	minutes float64
	seed    uint64
	tags    string
	faults  string
	dir     string
	keep    bool
}

func main() {
	var o options
	flag.Float64Var(&o.minutes, "minutes", 3, "how long faults come")
	flag.Uint64Var(&o.seed, "seed", 0, "chooses the faults, their times and the records; 0: by the clock")
	flag.StringVar(&o.tags, "tags", "", "build tags of the program, such as broken_early: a rule broken on purpose")
	flag.StringVar(&o.faults, "faults", "all", "all, or supervisors: the brokers are left alone")
	flag.StringVar(&o.dir, "dir", "", "the folder that keeps what explains a violation; it is emptied first (default .cache/soak/SEED)")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder also when all is well")
	flag.Parse()
	if flag.NArg() > 0 || o.minutes <= 0 || o.faults != "all" && o.faults != "supervisors" {
		flag.Usage()
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().Unix())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if err := run(ctx, o); err != nil {
		if !errors.Is(err, errViolated) { // that has been said
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
		code = 1
	}
	cancel()
	os.Exit(code)
}

// soak is one run.
type soak struct {
	options
	root, binary, state string
	pipeline, mark      string
	brokers             []string
	cluster             cluster
	client              *kgo.Client
	admin               *kadm.Client
	begin               time.Time
	events              *os.File

	mu          sync.Mutex
	supervisors []*supervisor // those that are to run
	all         []*supervisor // and those that were
	started     map[string]int
	counts      map[kind]int
	problems    []string // violations that are not in Kafka's logs
	written     int
}

// modes are the streamlets, with how many supervisors begin.
var modes = map[string]int{"forward": 3, "fan": 2, "trouble": 2}

// modeNames has an order, so that equal seeds choose equal things.
var modeNames = []string{"forward", "fan", "trouble"}

// errViolated: the folder has what explains it.
var errViolated = errors.New("the guarantee does not hold")

// run does it all; nil says that nothing is wrong.
func run(ctx context.Context, o options) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	k := &soak{options: o, root: root, started: map[string]int{}, counts: map[kind]int{}}
	k.dir = o.dir
	if k.dir == "" {
		k.dir = filepath.Join(root, ".cache/soak", strconv.FormatUint(o.seed, 10))
	}
	k.binary, k.state = filepath.Join(k.dir, "ankka-flow"), filepath.Join(k.dir, "state")
	k.pipeline = fmt.Sprintf("soak-%d-%d-%d", o.seed, time.Now().Unix(), os.Getpid()) // several may share a cluster
	k.mark = "SOAK_MARK=" + k.pipeline
	if err := os.RemoveAll(k.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(k.state, 0o755); err != nil {
		return err
	}
	if k.events, err = os.Create(filepath.Join(k.dir, "faults.log")); err != nil {
		return err
	}
	defer k.events.Close()
	if err := k.build(ctx); err != nil {
		return err
	}
	if err := k.openCluster(ctx); err != nil {
		return err
	}
	defer k.closeCluster()
	report, err := k.soak(ctx)
	if err != nil {
		return fmt.Errorf("seed %d: %w; everything is in %s", o.seed, err, k.dir)
	}
	return k.conclude(report) // the figures are the last line, whatever it is
}

// build makes the program that is soaked.
func (k *soak) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", k.tags, "-o", k.binary, "./cmd/ankka-flow")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}

// soak runs the supervisors through the faults, waits until everything is
// committed, and has it judged.
func (k *soak) soak(ctx context.Context) (*checker.Report, error) {
	defer k.killAll()
	for _, mode := range modeNames {
		for range modes[mode] {
			if err := k.add(mode); err != nil {
				return nil, err
			}
		}
	}
	if err := k.harass(ctx); err != nil {
		return nil, err
	}
	if err := k.awaitCommitted(ctx); err != nil {
		return nil, err
	}
	k.endAll()
	return k.judge(ctx)
}

// add starts a supervisor more.
func (k *soak) add(mode string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.newSupervisor(mode)
	if err != nil {
		return err
	}
	k.all = append(k.all, s)
	if err := s.start(); err != nil {
		return err
	}
	k.supervisors = append(k.supervisors, s)
	return nil
}

// harass writes records and does what the seed says, for the given minutes.
func (k *soak) harass(ctx context.Context) error {
	total := time.Duration(k.minutes * float64(time.Minute))
	k.begin = time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var lanes sync.WaitGroup
	lane := func(what func(context.Context) error) {
		lanes.Go(func() { // ends with its part of the schedule; awaited below
			if err := what(ctx); err != nil {
				cancel(err)
			}
		})
	}
	few := schedule(rand.New(rand.NewPCG(k.seed, 1)), supervisorDeck, total, time.Second, 4*time.Second)
	lane(func(ctx context.Context) error { return k.supervisorLane(ctx, few) })
	if k.faults == "all" {
		rest := schedule(rand.New(rand.NewPCG(k.seed, 2)), brokerDeck, total, 2*time.Second, 6*time.Second)
		lane(func(ctx context.Context) error { return k.brokerLane(ctx, rest, total) })
	}
	lane(func(ctx context.Context) error { return k.write(ctx, total) })
	lanes.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

// endAll stops every supervisor; with nothing wrong in the cluster each ends
// with 0.
func (k *soak) endAll() {
	for _, s := range k.supervisors {
		if !s.running() {
			k.problem("exit: %s ended by itself: %v", s.name, s.cmd.ProcessState)
		} else if !s.end(syscall.SIGTERM, endLimit) {
			k.problem("hung: %s is still there %v after SIGTERM", s.name, endLimit)
		} else if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			k.problem("exit: %s, asked to end with nothing left to do: %v", s.name, s.cmd.ProcessState)
		}
	}
}

func (k *soak) killAll() {
	for _, s := range k.all {
		s.kill()
	}
}

// problem notes a violation that no log of Kafka's shows.
func (k *soak) problem(text string, args ...any) {
	k.event("VIOLATION "+text, args...)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problems = append(k.problems, fmt.Sprintf(text, args...))
}

// event is a line of faults.log.
func (k *soak) event(text string, args ...any) {
	now := time.Now()
	since := 0.0
	if !k.begin.IsZero() {
		since = now.Sub(k.begin).Seconds()
	}
	line := fmt.Sprintf("%s %8.3f %s\n", now.UTC().Format("15:04:05.000"), since, fmt.Sprintf(text, args...))
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.events.WriteString(line) // a full disk shows elsewhere
}

// pause waits, for a time that the seed chose.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
