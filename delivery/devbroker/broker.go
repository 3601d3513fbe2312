package devbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// DefaultListen is where the broker listens when nobody says otherwise: Kafka's
// own port, on loopback only.
const DefaultListen = "127.0.0.1:9092"

// DefaultPartitions is the number of partitions of a topic that is made without
// naming one.
const DefaultPartitions = 3

// MinSession is the group session timeout on the embedded broker: Kafka's
// lowest, so that a member that died without leaving is soon forgotten.
const MinSession = 6 * time.Second

// Config is what a broker needs.
type Config struct {
	// Dir is the data directory; it is made where it is missing.
	Dir string
	// Listen is host:port; empty means DefaultListen. Port 0 takes any.
	Listen string
	// AnyPort falls back to a free port when the one in Listen is taken,
	// instead of returning an error.
	AnyPort bool
}

// Broker is a running embedded broker.
type Broker struct {
	cluster *kfake.Cluster
	lock    *os.File
	dir     string
	address string
}

// InUseError says that the data directory has a live broker already. A caller
// that only needs a broker uses the one at Address; one that was asked to start
// it shows the error.
type InUseError struct {
	Dir string
	// Address is empty when the other one has not written it yet.
	Address string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("the data in %s belongs to a broker that runs at %s; use that one, stop it, or name another directory", e.Dir, e.Address)
}

// ListenError says that the broker cannot listen where it should.
type ListenError struct {
	Listen string
	Err    error
}

func (e *ListenError) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s is in use by another program; choose another address with --listen, or --listen 127.0.0.1:0 for any free port", e.Listen)
	}
	return fmt.Sprintf("listening on %s: %v", e.Listen, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// Open starts a broker on the data of a directory. The errors are *InUseError,
// *ListenError, or those of the directory; the user is to be shown each.
func Open(cfg Config) (*Broker, error) {
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the broker's data directory: %w", err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(addressFile(cfg.Dir)) // of one that was killed
	b := &Broker{lock: lock, dir: cfg.Dir}
	if err := b.start(cfg); err != nil {
		_ = lock.Close() // the error at hand is the one to show
		return nil, err
	}
	if err := writeAddress(cfg.Dir, b.address); err != nil {
		b.Close()
		return nil, fmt.Errorf("keeping the broker's address: %w", err)
	}
	return b, nil
}

func (b *Broker) start(cfg Config) error {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil && cfg.AnyPort && errors.Is(err, syscall.EADDRINUSE) {
		host, _, splitErr := net.SplitHostPort(cfg.Listen)
		if splitErr == nil {
			listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
		}
	}
	if err != nil {
		return &ListenError{Listen: cfg.Listen, Err: err}
	}
	b.address = listener.Addr().String()
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(cfg.Dir),
		kfake.SyncWrites(),
		kfake.DefaultNumPartitions(DefaultPartitions),
		kfake.GroupMinSessionTimeout(MinSession),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return listener, nil }),
	)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("opening the broker's data in %s (`ankka-flow broker --reset` starts with an empty one): %w", cfg.Dir, err)
	}
	b.cluster = cluster
	return nil
}

// Address is host:port.
func (b *Broker) Address() string { return b.address }

// CreateTopic makes a topic. One that exists is left as it is.
func (b *Broker) CreateTopic(name string, partitions int32) error {
	if b.cluster.TopicInfo(name) != nil {
		return nil
	}
	if err := b.cluster.CreateTopic(name, partitions, nil); err != nil {
		return fmt.Errorf("making topic %s: %w", name, err)
	}
	return nil
}

// Close stops the broker and lets go of the directory.
func (b *Broker) Close() {
	if b.cluster != nil {
		b.cluster.Close()
	}
	_ = os.Remove(addressFile(b.dir)) // a stale one is told by the lock
	_ = b.lock.Close()
}

// Find returns the address of the broker that lives on the data of a
// directory; ok is false when none does. It waits, until ctx ends, for one that
// is just starting.
func Find(ctx context.Context, dir string) (address string, ok bool) {
	for {
		lock, err := lockDir(dir)
		var inUse *InUseError
		switch {
		case err == nil:
			_ = lock.Close()
			return "", false
		case !errors.As(err, &inUse):
			return "", false
		case inUse.Address != "":
			return inUse.Address, true
		}
		select {
		case <-ctx.Done():
			return "", false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Reset removes everything that the directory's broker keeps. It refuses with
// *InUseError while one runs there, and it removes nothing from a directory
// that holds no broker's data.
func Reset(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("resetting the broker: %w", err)
	}
	if len(entries) > 1 {
		if _, err := os.Stat(filepath.Join(dir, "meta.json")); err != nil {
			return fmt.Errorf("resetting the broker: %s holds no broker's data; nothing was removed", dir)
		}
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("resetting the broker: %w", err)
		}
	}
	return nil
}

const lockName = "lock"

func addressFile(dir string) string { return filepath.Join(dir, "address") }

// lockDir takes the directory's lock. The kernel lets go of it when the process
// dies, however it dies; a pid file would have to be guessed at.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the broker's data: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the broker's data: %w", err)
		}
		address, _ := os.ReadFile(addressFile(dir)) // missing: just starting
		return nil, &InUseError{Dir: dir, Address: strings.TrimSpace(string(address))}
	}
	return f, nil
}

// writeAddress replaces the file at once, so that a reader sees an address or
// none. The old one went with the lock's last holder, or is stale: Find looks
// at it only while the lock is held, and Open removes it first.
func writeAddress(dir, address string) error {
	tmp := addressFile(dir) + ".new"
	if err := os.WriteFile(tmp, []byte(address+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, addressFile(dir))
}
