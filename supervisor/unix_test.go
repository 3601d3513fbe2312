package supervisor

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyInterrupts says a line for every Ctrl-C instead of dying of it.
func notifyInterrupts() {
	c := make(chan os.Signal, 10)
	signal.Notify(c, syscall.SIGINT)
	go func() {
		for range c {
			say("interrupted")
		}
	}()
}

// childIgnoresTerm reads on to the end of its input and says what signals it gets.
func childIgnoresTerm([]string) int {
	c := make(chan os.Signal, 10)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	say("ready")
	for s := range c {
		say("%v", s)
	}
	return 0
}
