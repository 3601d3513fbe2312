package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/kafka"
)

// embedded is the embedded broker of a directory as one command uses it: its
// own, or that of another command, which it follows to another address and
// takes over when the other one ends. So commands in one directory may be
// started and ended in any order.
type embedded struct {
	dir string
	log *slog.Logger
	// id is the identity of the data; no other broker is spoken to, whoever
	// has the address. Empty: that of an older version, which has none.
	id string

	mu      sync.Mutex
	address string
	own     *devbroker.Broker // nil: another command's
	closed  bool
	gone    time.Time // since when the other's is gone; zero: it is not
	said    string    // the last problem
	lost    error     // the data is not there any more; the command is over
	onLost  func()
}

// takeOverAfter is how long the broker of another command may be gone before
// it is taken over: one that is started again is back by then.
const takeOverAfter = 3 * time.Second

// findLimit bounds the wait for a broker that holds the data and has not yet
// said where it is.
const findLimit = 10 * time.Second

// shareEmbedded is the embedded broker that runs on the data of a directory.
func (a *app) shareEmbedded(dir string, at devbroker.Place) *embedded {
	return &embedded{dir: dir, log: a.log, id: at.ClusterID, address: at.Address}
}

// openEmbedded starts the embedded broker, or shares the one that runs there.
func (a *app) openEmbedded(ctx context.Context, cfg devbroker.Config) (*embedded, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	for {
		own, err := devbroker.Open(cfg)
		if err == nil {
			return &embedded{dir: cfg.Dir, log: a.log, id: own.ClusterID(), address: own.Address(), own: own}, nil
		}
		var inUse *devbroker.InUseError
		if !errors.As(err, &inUse) {
			return nil, embeddedFailure(err)
		}
		if at, ok := devbroker.Find(ctx, cfg.Dir); ok {
			return a.shareEmbedded(cfg.Dir, at), nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("another command holds %s but does not say where its broker is; end it, or name another directory with --broker-data", cfg.Dir)
		}
		// It ended in between: ours after all.
	}
}

// embeddedFailure adds what to do about an embedded broker that cannot be
// started.
func embeddedFailure(err error) error {
	var dir *devbroker.DirError
	if errors.As(err, &dir) {
		return fmt.Errorf("%w; name another directory with --broker-data, or a broker of your own with --brokers", err)
	}
	return err
}

// ours says that the broker runs in this process.
func (e *embedded) ours() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.own != nil
}

// at is its address.
func (e *embedded) at() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.address
}

// config is how a client reaches it.
func (e *embedded) config() kafka.Config {
	return kafka.Config{Brokers: []string{e.at()}, ClusterID: e.id, ClusterName: e.dir, Resolve: e.resolve}
}

// resolve is kafka.Config.Resolve: it is asked while the broker does not answer.
func (e *embedded) resolve(ctx context.Context) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.own != nil {
		return []string{e.address}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	at, found := devbroker.Find(ctx, e.dir)
	switch {
	case found && e.id != "" && at.ClusterID != e.id:
		return nil, e.lose(&devbroker.OtherDataError{Dir: e.dir})
	case found:
		e.follow(at.Address)
	case e.gone.IsZero():
		e.gone = time.Now()
		e.log.Warn(fmt.Sprintf("the embedded broker of another ankka-flow command, at %s, has ended; `ankka-flow broker` here brings it back, else this command takes it over in %v", e.address, takeOverAfter), "event", "broker")
	case time.Since(e.gone) >= takeOverAfter:
		return e.takeOver()
	}
	return []string{e.address}, nil
}

// follow goes where the broker is now.
func (e *embedded) follow(address string) {
	if e.address != address {
		e.log.Info(fmt.Sprintf("the embedded one of another command, now at %s", address), "event", "broker")
	}
	e.address, e.gone, e.said = address, time.Time{}, ""
}

// takeOver starts the broker on the data that the other one left, at the same
// address where that is free.
func (e *embedded) takeOver() ([]string, error) {
	own, err := devbroker.Open(devbroker.Config{Dir: e.dir, Listen: e.address, AnyPort: true, ClusterID: e.id})
	var inUse *devbroker.InUseError
	if errors.As(err, &inUse) {
		return nil, err // somebody was faster: asked again, we find it
	}
	var other *devbroker.OtherDataError
	if errors.As(err, &other) {
		return nil, e.lose(err)
	}
	if err != nil {
		return nil, e.problem(embeddedFailure(err))
	}
	why := ""
	if own.Address() != e.address {
		why = "; " + e.address + " has another program now"
	}
	e.own, e.address = own, own.Address()
	e.log.Info(fmt.Sprintf("taken over: embedded at %s, kept in %s, development only%s", e.address, e.dir, why), "event", "broker")
	return []string{e.address}, nil
}

// lose ends the command: with the data, its positions mean nothing any more.
func (e *embedded) lose(err error) error {
	e.lost = fmt.Errorf("%w under this command, which ends; start it again", err)
	if e.onLost != nil {
		e.onLost()
	}
	return e.lost
}

// whenLost names what ends the command when the data is lost.
func (e *embedded) whenLost(end func()) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onLost = end
	if e.lost != nil {
		end()
	}
}

// failure is why the command was ended by whenLost, or nil.
func (e *embedded) failure() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}

// problem says an error once.
func (e *embedded) problem(err error) error {
	text := err.Error()
	if text != e.said {
		e.said = text
		e.log.Error(text, "event", "broker")
	}
	return err
}

// close ends the broker if it is ours. The client is closed before.
func (e *embedded) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.own != nil {
		e.own.Close()
		e.own = nil
	}
}
