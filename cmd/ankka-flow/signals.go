package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// watchSignals turns the first SIGINT, SIGTERM or SIGHUP into a stop and the
// second SIGINT into force, which ends ctx. Our child never sees a Ctrl-C: it has
// a process group of its own.
func watchSignals(ctx context.Context, force context.CancelFunc, wg *sync.WaitGroup, stops chan<- string, log *slog.Logger) {
	// Two, so that a second Ctrl-C is not lost while the first is passed on.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals()...)
	// With the terminal goes the reader of our log, a tee say. A write to its
	// pipe shall fail and not kill us in the middle of what we finish; to ignore
	// the signal would hand that down to the child.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	wg.Go(func() { // ends with ctx; run awaits it
		defer signal.Stop(signals)
		defer signal.Stop(pipe)
		asked := false
		for {
			var s os.Signal
			select {
			case <-ctx.Done():
				return
			case s = <-signals:
			}
			if asked && s == syscall.SIGINT {
				force()
				return
			}
			if asked {
				continue
			}
			asked = true
			log.Info(fmt.Sprintf("%s: finishing what is in flight; a second Ctrl-C ends at once", name(s)), "event", "stopping")
			wg.Go(func() { // passes the stop on beside the loop: the driver may not listen yet
				select {
				case stops <- name(s):
				case <-ctx.Done():
				}
			})
		}
	})
}

// stopSignals are those that ask for a stop. SIGHUP says that the terminal was
// closed; whoever started us with nohup does not want to hear of that, and as
// process 1 there is no terminal, and the signal is meant for the child.
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
