package observe

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ankka-flow/delivery/driver"
)

// Source says how a run is; *driver.Driver. ok is false where the loop did not
// answer before ctx ended, or is over.
type Source interface {
	Snapshot(ctx context.Context) (driver.Snapshot, bool)
}

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	Watch  *Watch
	Source Source
	// List asks for the ends of partitions that are behind; nil: nobody is asked.
	List Lister
	// Dir is where the ready and alive files are; empty: none yet, see UseDir.
	Dir    string
	Logger *slog.Logger
}

// Keeper looks at a run at intervals: it keeps the files of the probes, the
// rates and the ends of partitions.
type Keeper struct {
	watch  *Watch
	source Source
	log    *slog.Logger
	began  time.Time
	ends   ends
	asks   chan []string // topics; capacity 1
	dirs   chan string   // capacity 1

	turned atomic.Int64 // when the loop answered last, as a time.Duration since began

	mu   sync.Mutex
	last *driver.Snapshot // the newest, for counters

	// Run's alone.
	files stateFiles
	said  string
}

// NewKeeper makes a Keeper that does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	k := &Keeper{
		watch: cfg.Watch, source: cfg.Source, log: cfg.Logger, began: time.Now(),
		ends: ends{list: cfg.List}, asks: make(chan []string, 1), dirs: make(chan string, 1),
	}
	if cfg.Dir != "" {
		k.UseDir(cfg.Dir)
	}
	return k
}

// UseDir makes dir the state directory: it is known when the streamlet has said
// its name. Called again, the last one counts. It must not be called by two
// goroutines at once.
func (k *Keeper) UseDir(dir string) {
	select {
	case <-k.dirs:
	default:
	}
	k.dirs <- dir
}

// Alive says that the supervisor's loop turns: it answered within AliveWithin.
// That says nothing of Kafka or of the process: a new supervisor would mend
// neither.
func (k *Keeper) Alive() bool {
	return time.Since(k.began)-time.Duration(k.turned.Load()) < AliveWithin
}

// AliveNow is Alive, but asks the loop where it has not answered for long: it may
// be the keeper that is held up, by a state directory on a disk that hangs.
func (k *Keeper) AliveNow(ctx context.Context) bool {
	if k.Alive() {
		return true
	}
	_, ok := k.snapshot(ctx)
	return ok
}

// Run keeps everything until ctx ends, and takes the files away.
func (k *Keeper) Run(ctx context.Context) {
	var asking sync.WaitGroup
	asking.Go(func() { k.askEnds(ctx) }) // ends with ctx; awaited below
	defer asking.Wait()
	defer k.leave()
	ticker := time.NewTicker(endsInterval)
	defer ticker.Stop()
	k.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.watch.readySignal:
			k.keepReady()
		case dir := <-k.dirs:
			k.useDir(dir)
			k.look(ctx)
			k.keepReady()
		case <-ticker.C:
			k.look(ctx)
		}
	}
}

// look asks the loop how things are, which proves that it turns.
func (k *Keeper) look(ctx context.Context) {
	s, ok := k.snapshot(ctx)
	if !ok {
		return
	}
	k.say(k.files.write(AliveFile))
	k.watch.sample(time.Now())
	if k.ends.list == nil {
		return
	}
	topics := wanted(&s)
	select {
	case k.asks <- topics:
	default: // the last question is still open
	}
}

// snapshotTimeout is how long the loop may take to answer.
const snapshotTimeout = time.Second

func (k *Keeper) snapshot(ctx context.Context) (driver.Snapshot, bool) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	s, ok := k.source.Snapshot(ctx)
	if ok {
		k.turned.Store(int64(time.Since(k.began)))
		k.mu.Lock()
		k.last = &s
		k.mu.Unlock()
	}
	return s, ok
}

func (k *Keeper) lastSnapshot() *driver.Snapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// askEnds asks beside the keeper: a broker may take its time.
func (k *Keeper) askEnds(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case topics := <-k.asks:
			k.ends.ask(ctx, topics)
		}
	}
}

func (k *Keeper) useDir(dir string) {
	if dir == k.files.dir {
		return
	}
	k.leave()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		k.say(err)
		return
	}
	k.files.dir = dir
	// A supervisor that was killed left its own behind.
	k.say(k.files.remove(ReadyFile))
}

func (k *Keeper) keepReady() {
	if k.watch.Ready() {
		k.say(k.files.write(ReadyFile))
		return
	}
	k.say(k.files.remove(ReadyFile))
}

func (k *Keeper) leave() {
	k.say(k.files.remove(ReadyFile))
	k.say(k.files.remove(AliveFile))
}

// say warns once of each thing that is wrong with the state directory. The
// probes over HTTP do not need it.
func (k *Keeper) say(err error) {
	if err == nil || err.Error() == k.said {
		return
	}
	k.said = err.Error()
	k.log.Warn(fmt.Sprintf("the files of the probes cannot be kept: %v; probe over HTTP, or set FLOW_STATE_DIR", err), "event", "state")
}
