package devbroker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"ankka-flow/delivery/kafka/names"
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

// maxMessage is the largest batch, in bytes, that a topic takes where it has no
// max.message.bytes of its own. It holds the largest record of the streamlets'
// protocol (4 MiB) with what a batch adds; Kafka's own default is 1 MiB.
const maxMessage = 5 << 20

// Config is what a broker needs.
type Config struct {
	// Dir is the data directory; it is made where it is missing.
	Dir string
	// Listen is host:port; empty means DefaultListen. Port 0 takes any.
	Listen string
	// AnyPort falls back to a free port when the one in Listen is taken,
	// instead of returning an error.
	AnyPort bool
	// ClusterID, where it is not empty, is that of the data which must be there
	// already: Open refuses with *OtherDataError, and makes nothing, where the
	// directory has none or that of another cluster.
	ClusterID string
}

// Broker is a running embedded broker.
type Broker struct {
	cluster *kfake.Cluster
	lock    *os.File
	dir     string
	address string
	id      string
}

// InUseError says that the data directory has a live broker already. A caller
// that only needs a broker uses the one at Address; one that was asked to start
// it shows the error.
type InUseError struct {
	Dir string
	// Address is empty when the other one has not written it yet.
	Address string
	// ClusterID is that of the data; empty as Address, or when the other one
	// is of a version that wrote none.
	ClusterID string
}

func (e *InUseError) Error() string {
	if e.Address == "" {
		return fmt.Sprintf("the data in %s belongs to a broker that is just starting", e.Dir)
	}
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

// DirError says that the data directory cannot be used: it is a file, it is
// read-only, the disk is full. The one who named the directory names another.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string {
	return fmt.Sprintf("the embedded broker's data cannot be kept in %s: %v", e.Dir, e.Err)
}

func (e *DirError) Unwrap() error { return e.Err }

// OtherDataError says that a directory has not, or no more, the data that
// Config.ClusterID asks for, as after a reset. What was read from it before
// means nothing now; the caller has to begin anew.
type OtherDataError struct{ Dir string }

func (e *OtherDataError) Error() string {
	return fmt.Sprintf("the broker's data in %s was removed or replaced", e.Dir)
}

// Open starts a broker on the data of a directory. The errors are *InUseError,
// *ListenError, *DirError, *OtherDataError, or data that cannot be read; the
// user is to be shown each.
func Open(cfg Config) (*Broker, error) {
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if cfg.ClusterID != "" && readClusterID(cfg.Dir) != cfg.ClusterID {
		return nil, &OtherDataError{cfg.Dir}
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, &DirError{cfg.Dir, err}
	}
	lock, err := lockToOpen(cfg.Dir)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(addressFile(cfg.Dir)) // of one that was killed
	b := &Broker{lock: lock, dir: cfg.Dir}
	if b.id, err = ensureClusterID(cfg.Dir); err != nil {
		_ = lock.Close() // the error at hand is the one to show
		return nil, &DirError{cfg.Dir, err}
	}
	if err := b.start(cfg); err != nil {
		_ = lock.Close() // the error at hand is the one to show
		return nil, err
	}
	if err := writeAddress(cfg.Dir, b.address, b.id); err != nil {
		b.Close()
		return nil, &DirError{cfg.Dir, err}
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
		kfake.ClusterID(b.id),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": strconv.Itoa(maxMessage)}),
		kfake.DataDir(cfg.Dir),
		kfake.SyncWrites(),
		kfake.DefaultNumPartitions(DefaultPartitions),
		kfake.GroupMinSessionTimeout(MinSession),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return listener, nil }),
	)
	if err != nil {
		_ = listener.Close()
		if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
			return &DirError{cfg.Dir, err}
		}
		return fmt.Errorf("opening the broker's data in %s (`ankka-flow broker --reset` starts with an empty one): %w", cfg.Dir, err)
	}
	b.cluster = cluster
	return nil
}

// Address is host:port.
func (b *Broker) Address() string { return b.address }

// ClusterID is the identity of the data: random, made once, kept with it, and
// what the broker says of itself in its metadata.
func (b *Broker) ClusterID() string { return b.id }

// Partitions counts the partitions of a topic; 0: there is no such topic.
func (b *Broker) Partitions(topic string) int32 {
	n := int32(0)
	for b.cluster.PartitionInfo(topic, n) != nil {
		n++
	}
	return n
}

// CreateTopic makes a topic. One that exists is left as it is, with as many
// partitions as it has. A name that Kafka does not allow is refused: it would
// be a path outside of the data, or one that cannot be made.
func (b *Broker) CreateTopic(name string, partitions int32) error {
	if err := names.CheckTopic(name); err != nil {
		return fmt.Errorf("making a topic: %w", err)
	}
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

// Reset removes everything that the directory's broker keeps. It refuses with
// *InUseError while one runs there, and it removes nothing from a directory
// that holds no broker's data.
func Reset(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if !HasData(dir) && !exists(filepath.Join(dir, lockName)) {
		return resetForeign(dir) // a lock of ours has no place there
	}
	lock, err := lockToOpen(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return &DirError{dir, err}
	}
	if len(entries) > 1 && !HasData(dir) {
		return resetForeign(dir)
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

// resetForeign answers a reset where no broker's data is: an empty directory is
// as good as one that was reset.
func resetForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return &DirError{dir, err}
	case len(entries) > 0:
		return fmt.Errorf("resetting the broker: %s holds no broker's data; nothing was removed", dir)
	}
	return nil
}
