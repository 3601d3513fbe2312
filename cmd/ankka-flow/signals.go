package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ankka-flow/supervisor"
)

// runSignals listens for the signals of run from the first moment: a stop that comes while
// the configuration is read is a stop like any other, and not the end by a signal. The other
// commands end as the system does it.
func runSignals(root *cobra.Command, args []string) chan os.Signal {
	if cmd, _, err := root.Find(args); err != nil || cmd.Name() != "run" {
		return nil
	}
	// A stop, a second Ctrl-C, and one of each kind that is passed on.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(stopSignals(), passedSignals()...)...)
	return signals
}

// signals is what becomes of the signals that run gets.
type signals struct {
	log   *slog.Logger
	from  chan os.Signal
	stops chan<- string
	force context.CancelFunc
	// child is the process that runs or ran last; nil: none yet.
	child atomic.Pointer[supervisor.Process]
}

// watch turns the first SIGINT, SIGTERM or SIGHUP into a stop and the second SIGINT into
// force, which ends ctx. The others are passed on to the process. Our child never sees a
// Ctrl-C: it has a process group of its own.
func (s *signals) watch(ctx context.Context, wg *sync.WaitGroup) {
	// With the terminal goes the reader of our log, a tee say. A write to its
	// pipe shall fail and not kill us in the middle of what we finish; to ignore
	// the signal would hand that down to the child.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	wg.Go(func() { // ends with ctx; run awaits it
		defer signal.Stop(s.from)
		defer signal.Stop(pipe)
		asked := false
		for {
			var got os.Signal
			select {
			case <-ctx.Done():
				return
			case got = <-s.from:
			}
			switch {
			case slices.Contains(passedSignals(), got):
				s.pass(got)
			case asked && got == syscall.SIGINT:
				s.force()
				return
			case !asked:
				asked = true
				s.log.Info(fmt.Sprintf("%s: finishing what is in flight; a second Ctrl-C ends at once", name(got)), "event", "stopping")
				wg.Go(func() { // passes the stop on beside the loop: the driver may not listen yet
					select {
					case s.stops <- name(got):
					case <-ctx.Done():
					}
				})
			}
		}
	})
}

// pass gives a signal to the process, not to its group: as if it had been sent there.
func (s *signals) pass(got os.Signal) {
	child := s.child.Load()
	if child == nil {
		return
	}
	child.Signal(got)
	if got != syscall.SIGWINCH { // which comes with every step of a window's edge
		s.log.Info(fmt.Sprintf("%s is passed on to the process", unix.SignalName(got.(syscall.Signal))), "event", "process")
	}
}

// passedSignals are for the process and no matter of ours. SIGHUP asks a program in a container
// to read its configuration again.
func passedSignals() []os.Signal {
	passed := []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
	if os.Getpid() == 1 {
		passed = append(passed, syscall.SIGHUP)
	}
	return passed
}

// reapOrphans takes the statuses of the orphans that become our children, which happens to
// process 1 alone; elsewhere it does nothing and returns nil.
func reapOrphans(ctx context.Context, wg *sync.WaitGroup) *supervisor.Reaper {
	if os.Getpid() != 1 {
		return nil
	}
	reaper := supervisor.NewReaper()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	wg.Go(func() { // ends with ctx; run awaits it
		defer signal.Stop(ended)
		for {
			reaper.Reap()
			select {
			case <-ctx.Done():
				return
			case <-ended:
			}
		}
	})
	return reaper
}

// stopSignals are those that ask for a stop. SIGHUP says that the terminal was
// closed; whoever started us with nohup does not want to hear of that, and to
// process 1 it is no stop (see passedSignals).
func stopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) && os.Getpid() != 1 {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func name(s os.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "Ctrl-C"
	case syscall.SIGHUP:
		return "SIGHUP, the terminal was closed"
	}
	return "SIGTERM"
}
