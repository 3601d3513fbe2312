package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line's.
type options struct {
	kinds                 string
	start, batch, record  time.Duration
	timeout               time.Duration
	window, within, after time.Duration
	share                 float64
	save, keep            bool
}

// allKinds are the kinds of poison; mixed has one of each of the first three.
var allKinds = []string{"raises", "kills", "hangs", "freezes", "mixed"}

func main() {
	var o options
	flag.StringVar(&o.kinds, "kinds", "raises,kills,hangs,mixed", "the kinds of poison, of "+strings.Join(allKinds, ", "))
	flag.DurationVar(&o.start, "start", 0, "how long the process takes to start, besides Python")
	flag.DurationVar(&o.record, "record", 5*time.Millisecond, "how long a record takes")
	flag.DurationVar(&o.batch, "batch", 0, "how long a batch of the partitions without poison takes instead, whatever its size")
	flag.DurationVar(&o.timeout, "timeout", 0, "FLOW_BATCH_TIMEOUT (default 2s, and the time of a batch)")
	flag.DurationVar(&o.window, "window", 0, "over how long the throughput is compared (default 2m, and 24 batches)")
	flag.DurationVar(&o.within, "within", 0, "how soon each bad record must be named (default 30s, 12 starts and 12 batches)")
	flag.DurationVar(&o.after, "after", 5*time.Second, "how soon, besides the start, the partitions must go on after a save")
	flag.Float64Var(&o.share, "share", 0.85, "what the other partitions must keep of their throughput")
	flag.BoolVar(&o.save, "save", true, "mend the streamlet at the end, under --watch")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the logs also when all is well")
	flag.Parse()
	o.fill()
	for _, kind := range o.list() {
		if flag.NArg() > 0 || !slices.Contains(allKinds, kind) {
			flag.Usage()
			os.Exit(2)
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if err := run(ctx, o); err != nil {
		if !errors.Is(err, errMissed) { // that has been said
			fmt.Fprintln(os.Stderr, "poison:", err)
		}
		code = 1
	}
	cancel()
	os.Exit(code)
}

// fill puts in the defaults that depend on others.
func (o *options) fill() {
	if o.timeout == 0 {
		o.timeout = 2*time.Second + o.batch
	}
	if o.window == 0 {
		o.window = max(2*time.Minute, 24*o.batch)
	}
	if o.within == 0 {
		o.within = 30*time.Second + 12*o.start + 12*o.batch
	}
}

func (o *options) list() []string { return strings.Split(o.kinds, ",") }

// errMissed: a promise was not kept, and which has been printed.
var errMissed = errors.New("a promise was not kept")

// run does it all; nil says that every promise was kept.
func run(ctx context.Context, o options) error {
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.measure(ctx); err != nil {
		return fmt.Errorf("%w; everything is in %s", err, b.dir)
	}
	return b.conclude()
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
