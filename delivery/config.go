package delivery

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config has every bound and every wait of the core. A zero field means its
// default, unless its comment says otherwise; New fills defaults in.
type Config struct {
	// ReconnectMin is the first wait between a failure and the next discovery.
	// It doubles with every failure that accuses nobody or found nobody yet, and
	// for a convict's next try with every one of its own. Default 500 ms.
	ReconnectMin time.Duration
	// ReconnectMax is where the doubling ends (FLOW_RECONNECT_MAX_BACKOFF).
	// Twice of it is the time a conversation must have run to reset the wait,
	// and the time without one after which the groups are left (at least 10 s). An oversized
	// record is looked at again after it. Default 30 s; at least ReconnectMin.
	ReconnectMax time.Duration
	// DiscoveryTimeout bounds the time from the launch, or from discover, to
	// the process's spec (FLOW_DISCOVERY_TIMEOUT). Default 60 s.
	DiscoveryTimeout time.Duration
	// ProcessTimeout kills a process whose credit is filled by nothing but void
	// batches for so long (FLOW_PROCESS_TIMEOUT). Whether a process is
	// unreachable is judged outside and told as Unreachable. Default 60 s.
	ProcessTimeout time.Duration
	// BatchTimeout kills a process that has not answered a batch, void or not,
	// for so long (FLOW_BATCH_TIMEOUT). Zero: off, which is the default.
	BatchTimeout time.Duration
	// EndTimeout bounds the wait for stopped after a failure; the wait before
	// the next conversation does too, where it is longer. Default 30 s.
	EndTimeout time.Duration
	// ReloadTimeout bounds the old process's end at a reload, and its end after
	// a refusal. Default 5 s.
	ReloadTimeout time.Duration

	// MaxRecords is the most records of a batch. Zero: adaptive, from 100 up
	// to 1,000, and then batches are also kept to 512 KiB.
	MaxRecords int
	// MaxBytes is the most bytes (keys, values, headers) of a batch; a single
	// larger record goes alone. Default 1 MiB.
	MaxBytes int
	// Batches has limits of single inlets.
	Batches map[string]BatchLimit
	// CommitInterval is the least time between two commits of an inlet.
	// Default 100 ms.
	CommitInterval time.Duration

	// WithProcess bounds the bytes of all batches with the process; what is
	// over it waits. Default 64 MiB.
	WithProcess int
	// HoldBatch bounds the held emits of one batch; more fails the stream and
	// accuses its partition. Default 64 MiB.
	HoldBatch int
	// HoldSoft is the size of all held emits above which nothing new is
	// delivered. Default 128 MiB.
	HoldSoft int
	// HoldHard is the size of all held emits above which the stream fails,
	// accusing nobody, and half as many batches are admitted for a while.
	// Default 256 MiB.
	HoldHard int

	// RecordLimit is the protocol's limit of a record in bytes, for messages
	// only: who delivers applies it. Zero: it is not named.
	RecordLimit int

	// Stop is the stop's budget (FLOW_STOP_TIMEOUT).
	Stop StopBudget
	// ExitOnFailure ends the supervisor at the first failure.
	ExitOnFailure bool
	// Explain words a breach for people, as the protocol's page does, which the
	// core does not know. It must be pure. Nil, or an empty text: a plain
	// sentence (Breach.String).
	Explain func(Breach) string
	// Watch waits for ReloadAsked after an exit, a refusal or a failed launch,
	// instead of trying again or exiting.
	Watch bool
	// Attach is for a process that comes by itself, as one in a debugger does:
	// each one's Launch, the first too, waits for ReloadAsked, and no time but
	// the stop's applies to it, whatever the fields above say.
	Attach bool
}

// StopBudget has the times of a stop, all counted from when it was asked for.
// They rise; a zero field means its default.
type StopBudget struct {
	// Process is how long batches may still be acked. Default 15 s.
	Process time.Duration
	// Writes is how long acked batches may still be written and committed.
	// Default 20 s.
	Writes time.Duration
	// Terminate is when a process that still lives gets SIGTERM. Default 20 s.
	Terminate time.Duration
	// Kill is when it gets SIGKILL. Default 23 s.
	Kill time.Duration
	// Exit is when the supervisor exits whatever is left. Default 25 s.
	Exit time.Duration
}

const (
	adaptMin       = 100       // records of the first batches
	adaptMax       = 1000      // records above which batches do not grow
	adaptBytes     = 512 << 10 // bytes above which they do not either
	adaptFast      = 50 * time.Millisecond
	adaptSlow      = 200 * time.Millisecond
	defaultCredit  = 32          // batches, where the process names none
	closedGrace    = time.Second // from a closed stdout to the failure, for the exit to come
	commitRetryMax = time.Second // the longest wait between tries of a commit

	never = 1 << 62 * time.Nanosecond // far beyond any run, and still no overflow when added to one's time

	keepGroupsMin = 10 * time.Second // the least time that groups are kept without a conversation

	// When a process that is still starting gets SIGTERM and SIGKILL in a stop.
	startingTerminate = time.Second
	startingKill      = 4 * time.Second
)

// Validate reports the first thing in c that cannot work, after defaults. The
// one who reads the configuration shows it to the user; New panics with it.
func (c Config) Validate() error {
	c.fill()
	s := c.Stop
	switch {
	case c.ReconnectMin < 0 || c.ReconnectMax < c.ReconnectMin:
		return fmt.Errorf("reconnect backoff: the maximum %v is below the minimum %v", c.ReconnectMax, c.ReconnectMin)
	case c.BatchTimeout < 0:
		return fmt.Errorf("batch timeout: %v is negative", c.BatchTimeout)
	case c.MaxRecords < 0 || c.MaxBytes < 0:
		return fmt.Errorf("batch size: %d records, %d bytes: negative", c.MaxRecords, c.MaxBytes)
	case c.negativeBatch() != "":
		return fmt.Errorf("batch size of inlet %s: negative", c.negativeBatch())
	case c.HoldSoft > c.HoldHard:
		return fmt.Errorf("held emits: the soft limit %d is above the hard limit %d", c.HoldSoft, c.HoldHard)
	case s.Process > s.Writes || s.Writes > s.Kill || s.Terminate > s.Kill || s.Kill > s.Exit:
		return fmt.Errorf("stop budget: %v, %v, %v, %v, %v do not rise", s.Process, s.Writes, s.Terminate, s.Kill, s.Exit)
	}
	return nil
}

// BatchLimit bounds the batches of one inlet; zero in a field: as Config has it.
type BatchLimit struct{ MaxRecords, MaxBytes int }

// negativeBatch is an inlet whose limit is negative, or "".
func (c *Config) negativeBatch() string {
	for _, inlet := range slices.Sorted(maps.Keys(c.Batches)) {
		if l := c.Batches[inlet]; l.MaxRecords < 0 || l.MaxBytes < 0 {
			return inlet
		}
	}
	return ""
}

// limit is what bounds the batches of an inlet.
func (c *Config) limit(inlet string) BatchLimit {
	l := c.Batches[inlet]
	if l.MaxRecords == 0 {
		l.MaxRecords = c.MaxRecords
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = c.MaxBytes
	}
	return l
}

// bytes is the most bytes of a batch.
func (l BatchLimit) bytes() int {
	if l.MaxRecords == 0 {
		return min(l.MaxBytes, adaptBytes)
	}
	return l.MaxBytes
}

// fill puts the defaults in.
func (c *Config) fill() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	size := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&c.ReconnectMin, 500*time.Millisecond)
	def(&c.ReconnectMax, max(30*time.Second, c.ReconnectMin))
	def(&c.DiscoveryTimeout, 60*time.Second)
	def(&c.ProcessTimeout, 60*time.Second)
	def(&c.EndTimeout, 30*time.Second)
	def(&c.ReloadTimeout, 5*time.Second)
	if c.Attach {
		c.DiscoveryTimeout, c.EndTimeout, c.ProcessTimeout, c.BatchTimeout = never, never, never, 0
	}
	size(&c.MaxBytes, 1<<20)
	def(&c.CommitInterval, 100*time.Millisecond)
	size(&c.WithProcess, 64<<20)
	size(&c.HoldBatch, 64<<20)
	size(&c.HoldSoft, 128<<20)
	size(&c.HoldHard, 256<<20)
	def(&c.Stop.Process, 15*time.Second)
	def(&c.Stop.Writes, 20*time.Second)
	def(&c.Stop.Terminate, 20*time.Second)
	def(&c.Stop.Kill, 23*time.Second)
	def(&c.Stop.Exit, 25*time.Second)
}
