package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// interrupts are the signals of a command that ends by itself: the first
// SIGINT or SIGTERM ends what it reads, the second everything.
type interrupts struct {
	first, second context.Context
	number        atomic.Int32 // of the signal that came last
	cancel        func()       // ends both
	end           func()
	done          sync.WaitGroup
}

// watchInterrupts begins to listen; stop ends and awaits its goroutine.
func watchInterrupts(ctx context.Context) *interrupts {
	i := &interrupts{}
	var endFirst, endSecond context.CancelFunc
	i.second, endSecond = context.WithCancel(ctx)
	i.first, endFirst = context.WithCancel(i.second)
	i.cancel = endSecond
	over := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	i.done.Go(func() { // ends with stop, which awaits it
		defer signal.Stop(signals)
		for _, end := range []context.CancelFunc{endFirst, endSecond} {
			select {
			case <-over:
				return
			case s := <-signals:
				if number, ok := s.(syscall.Signal); ok {
					i.number.Store(int32(number))
				}
				end()
			}
		}
	})
	i.end = func() {
		close(over)
		i.done.Wait()
		endFirst()
		endSecond()
	}
	return i
}

func (i *interrupts) stop() { i.end() }

// exit is the end by the signal, as a shell shows it: 130 after Ctrl-C.
func (i *interrupts) exit() error { return &exitError{code: 128 + int(i.number.Load())} }
