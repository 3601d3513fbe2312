package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// clean is the kind without poison.
const clean = "clean"

const (
	// stallAfter is FLOW_STALL_WARNING_AFTER.
	stallAfter = 5 * time.Second
	endLimit   = time.Minute
	// stuckAfter is how long anything may take that has no promise of its own.
	stuckAfter = 4 * time.Minute
)

// bench is one run.
type bench struct {
	options
	root, dir, binary string
	streamlet         []byte
	broker            *broker
	supervisors       []*supervisor // the clean one first
	figures           map[string]*figures
	missed            []string
}

// figures are those of one kind.
type figures struct {
	named        time.Duration // in log, status and warning, since it was ready
	share        float64
	repeats      int
	afterSave    time.Duration
	records      int64
	cleanRecords int64
}

func newBench(o options) (*bench, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, root: root, figures: map[string]*figures{}}
	if b.streamlet, err = os.ReadFile(filepath.Join(root, "scripts/poisoning/streamlet.py")); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp(filepath.Join(root, ".cache/poison"), "run-"); err != nil {
		return nil, err
	}
	b.binary = filepath.Join(b.dir, "ankka-flow")
	cmd := exec.Command("go", "build", "-o", b.binary, "./cmd/ankka-flow")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return b, nil
}

func (b *bench) close() {
	for _, s := range b.supervisors {
		s.kill()
	}
	if b.broker != nil {
		b.broker.close()
	}
}

// miss notes a promise that was not kept.
func (b *bench) miss(text string, args ...any) {
	b.missed = append(b.missed, fmt.Sprintf(text, args...))
	fmt.Println("MISSED", b.missed[len(b.missed)-1])
}

// measure runs everything, from the first start to the last save.
func (b *bench) measure(ctx context.Context) error {
	kinds := append([]string{clean}, b.list()...)
	var outlets []string
	for _, kind := range kinds {
		outlets = append(outlets, "poison-"+kind+".out")
		b.figures[kind] = &figures{}
	}
	var err error
	if b.broker, err = newBroker(ctx, outlets); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() { // ends with the context; awaited above
		if err := b.broker.write(ctx, b.backlog()); err != nil {
			cancel(err)
		}
	})
	defer cancel(nil)
	for _, kind := range kinds {
		s, err := newSupervisor(b, kind)
		if err != nil {
			return err
		}
		b.supervisors = append(b.supervisors, s)
		if err := s.launch(b.binary); err != nil {
			return err
		}
	}
	if err := b.compare(ctx); err != nil {
		return err
	}
	if err := b.judge(ctx); err != nil {
		return err
	}
	if b.save {
		return b.mend(ctx)
	}
	return nil
}

// backlog is ten seconds of work for a partition.
func (b *bench) backlog() int64 {
	if b.batch > 0 {
		return 2000
	}
	return int64(10 * time.Second / b.record)
}

// compare waits until each kind is named, and for its window from then on.
func (b *bench) compare(ctx context.Context) error {
	var each sync.WaitGroup
	poisoned := b.supervisors[1:]
	errs := make([]error, len(poisoned))
	missed := make([][]string, len(poisoned))
	for i, s := range poisoned {
		each.Go(func() { missed[i], errs[i] = b.one(ctx, s) }) // awaited below
	}
	each.Wait()
	for i := range poisoned {
		for _, text := range missed[i] {
			b.miss("%s: %s", poisoned[i].kind, text)
		}
		if errs[i] != nil {
			return fmt.Errorf("%s: %w", poisoned[i].kind, errs[i])
		}
	}
	return nil
}

// one is compare for one kind. It returns the promises that were not kept.
func (b *bench) one(ctx context.Context, s *supervisor) (missed []string, err error) {
	f := b.figures[s.kind]
	var began, from time.Time
	for limit := time.Now().Add(b.within + stuckAfter); from.IsZero(); {
		if ready := s.first(func(l *line) bool { return l.Event == "ready" }); ready != nil {
			began = ready.at
		}
		missing, at, err := s.missing(ctx)
		switch {
		case err != nil:
			return nil, err
		case missing == "" && !began.IsZero():
			f.named, from = at.Sub(began), time.Now()
		case time.Now().After(limit):
			return []string{fmt.Sprintf("not named within %v: %s", b.within+stuckAfter, missing)}, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if f.named > b.within {
		missed = append(missed, fmt.Sprintf("named after %v, and %v are promised", f.named.Round(time.Millisecond), b.within))
	}
	if err := pause(ctx, time.Until(from.Add(b.window))); err != nil {
		return nil, err
	}
	until := from.Add(b.window)
	f.records = b.broker.good(s.group, until) - b.broker.good(s.group, from)
	whole := b.supervisors[0].group
	f.cleanRecords = b.broker.good(whole, until) - b.broker.good(whole, from)
	f.share = float64(f.records) / float64(max(1, f.cleanRecords))
	fmt.Printf("%-8s named after %.1fs; from then on for %v the others committed %d records, without poison %d: %.1f %%\n",
		s.kind, f.named.Seconds(), b.window, f.records, f.cleanRecords, 100*f.share)
	if f.share < b.share {
		missed = append(missed, fmt.Sprintf("the others keep %.1f %% of their throughput, and %.0f %% are promised", 100*f.share, 100*b.share))
	}
	return missed, nil
}

// missing says what is not named yet, by log, status or warning; "": nothing, and
// the stream runs. at is when the last of it was.
func (s *supervisor) missing(ctx context.Context) (what string, at time.Time, err error) {
	st, err := s.status(ctx)
	if err != nil {
		return "", at, err
	}
	if st.State != "running" {
		return "the stream does not run", at, nil
	}
	for partition, offset := range bad {
		said := s.first(func(l *line) bool {
			return l.Event == "convicted" && l.names(partition, offset) && !strings.Contains(l.Msg, "a batch of ")
		})
		warned := s.first(func(l *line) bool { return l.Warning == "PartitionStalled" && l.names(partition, offset) })
		if said == nil || warned == nil {
			return fmt.Sprintf("%s/%d@%d in the log: %v, in the warning: %v", inlet, partition, offset, said != nil, warned != nil), at, nil
		}
		for _, l := range []*line{said, warned} {
			if l.at.After(at) {
				at = l.at
			}
		}
		shown := false
		for _, row := range st.Partitions {
			shown = shown || row.Topic == inlet && row.Partition == partition && row.Standing == "convicted" &&
				row.Suspect == offset && row.Tries > 0 && row.LastError != ""
		}
		if !shown {
			return fmt.Sprintf("%s/%d@%d in the status", inlet, partition, offset), at, nil
		}
	}
	return "", at, nil
}

// names: the line has the record's place, its tries and its last error.
func (l *line) names(partition int32, offset int64) bool {
	return l.Topic == inlet && l.Partition == partition && l.Offset == offset && l.Tries > 0 && l.Error != ""
}
