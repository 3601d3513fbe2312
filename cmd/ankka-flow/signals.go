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

// watchSignals turns the first SIGINT or SIGTERM into a stop and the second
// SIGINT into force, which ends ctx. Our child never sees a Ctrl-C: it has a
// process group of its own.
func watchSignals(ctx context.Context, force context.CancelFunc, wg *sync.WaitGroup, stops chan<- string, log *slog.Logger) {
	// Two, so that a second Ctrl-C is not lost while the first is passed on.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	wg.Go(func() { // ends with ctx; run awaits it
		defer signal.Stop(signals)
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

func name(s os.Signal) string {
	if s == syscall.SIGINT {
		return "Ctrl-C"
	}
	return "SIGTERM"
}
