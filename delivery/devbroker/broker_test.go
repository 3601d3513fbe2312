package devbroker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func open(t *testing.T, cfg Config) *Broker {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(address))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What was confirmed and committed is there after the next start.
func TestDataIsKept(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	first := open(t, Config{Dir: dir})
	if err := first.CreateTopic("in", 3); err != nil {
		t.Fatal(err)
	}
	c := client(t, first.Address())
	record := &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")}
	if err := c.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("in", record.Partition, 1, -1)
	if _, err := kadm.NewClient(c).CommitOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	c.Close()
	first.Close()

	second := open(t, Config{Dir: dir})
	c = client(t, second.Address(), kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	fetches := c.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if got := fetches.Records(); len(got) != 1 || string(got[0].Value) != "v" {
		t.Fatalf("got %v, want the one record", got)
	}
	committed, err := kadm.NewClient(c).FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := committed.Lookup("in", record.Partition); !ok || at.At != 1 {
		t.Fatalf("committed %v, want 1", at.At)
	}
}

func TestFindLeadsToTheLiveBroker(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	if address, ok := Find(ctx, dir); ok {
		t.Fatalf("found %v where none runs", address)
	}
	b := open(t, Config{Dir: dir})
	if place, ok := Find(ctx, dir); !ok || place != (Place{b.Address(), b.ClusterID()}) {
		t.Fatalf("found %v, %v; want %s", place, ok, b.Address())
	}
	var inUse *InUseError
	if _, err := Open(Config{Dir: dir, Listen: "127.0.0.1:0"}); !errors.As(err, &inUse) || inUse.Address != b.Address() {
		t.Fatalf("a second one: %v; want InUseError with %s", err, b.Address())
	}
	b.Close()
	if address, ok := Find(ctx, dir); ok {
		t.Fatalf("found %v after it closed", address)
	}
}

// One that was killed leaves an address behind; it is not believed.
func TestStaleAddressIsNotBelieved(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	if err := writeAddress(dir, "127.0.0.1:1", "x"); err != nil {
		t.Fatal(err)
	}
	if address, ok := Find(ctx, dir); ok {
		t.Fatalf("found %v", address)
	}
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var listenErr *ListenError
	if _, err := Open(Config{Dir: t.TempDir(), Listen: taken.Addr().String()}); !errors.As(err, &listenErr) {
		t.Fatalf("got %v, want ListenError", err)
	}
	b := open(t, Config{Dir: t.TempDir(), Listen: taken.Addr().String(), AnyPort: true})
	if b.Address() == taken.Addr().String() {
		t.Fatal("it says that it listens where another does")
	}
}

func TestResetRemovesOnlyABrokersData(t *testing.T) {
	dir := t.TempDir()
	b := open(t, Config{Dir: dir})
	var inUse *InUseError
	if err := Reset(dir); !errors.As(err, &inUse) {
		t.Fatalf("reset of a live one: %v, want InUseError", err)
	}
	if err := b.CreateTopic("old", 1); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := Reset(dir); err != nil {
		t.Fatal(err)
	}
	b = open(t, Config{Dir: dir})
	if b.cluster.TopicInfo("old") != nil {
		t.Fatal("a topic outlived the reset")
	}

	other := t.TempDir()
	precious := filepath.Join(other, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Reset(other); err == nil {
		t.Fatal("reset of a directory that holds no broker's data was accepted")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Fatalf("reset removed a stranger's file: %v", err)
	}
	if entries, _ := os.ReadDir(other); len(entries) != 1 {
		t.Fatalf("reset left %v in a stranger's directory", entries)
	}
}

// The identity of the data is made once, also for data of earlier versions,
// which all had kfake's, and it is another after a reset.
func TestClusterIDIsTheDatas(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	b := open(t, Config{Dir: dir})
	first := b.ClusterID()
	metadata, err := kadm.NewClient(client(t, b.Address())).BrokerMetadata(ctx)
	if err != nil || metadata.Cluster != first {
		t.Fatalf("the broker says that it is %q (%v), want %q", metadata.Cluster, err, first)
	}
	b.Close()
	b = open(t, Config{Dir: dir, ClusterID: first})
	if b.ClusterID() != first {
		t.Fatalf("%q became %q", first, b.ClusterID())
	}
	b.Close()

	meta := filepath.Join(dir, metaName)
	if err := os.WriteFile(meta, []byte(`{"version":1,"cluster_id":"kfake"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	b = open(t, Config{Dir: dir})
	second := b.ClusterID()
	b.Close()
	if second == first || second == kfakeID || len(second) != 22 {
		t.Fatalf("old data is now %q", second)
	}
	if b = open(t, Config{Dir: dir, ClusterID: second}); b.ClusterID() != second {
		t.Fatalf("%q became %q", second, b.ClusterID())
	}
	b.Close()

	if err := Reset(dir); err != nil {
		t.Fatal(err)
	}
	var other *OtherDataError
	if _, err := Open(Config{Dir: dir, Listen: "127.0.0.1:0", ClusterID: second}); !errors.As(err, &other) {
		t.Fatalf("after a reset: %v, want OtherDataError", err)
	}
	gone := filepath.Join(dir, "gone")
	if _, err := Open(Config{Dir: gone, Listen: "127.0.0.1:0", ClusterID: second}); !errors.As(err, &other) {
		t.Fatalf("without data: %v, want OtherDataError", err)
	}
	if exists(gone) {
		t.Fatal("a directory was made for data that is gone")
	}
}

// Looking for a broker is no broker: neither for others who look nor for one
// that starts meanwhile, and it leaves no file behind.
func TestFindDisturbsNobody(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	Find(ctx, dir)
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Fatalf("looking left %v", entries)
	}
	open(t, Config{Dir: dir}).Close()
	if err := writeAddress(dir, "127.0.0.1:1", "stale"); err != nil {
		t.Fatal(err)
	}
	looking, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock(looking, dir, syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if place, ok := Find(ctx, dir); ok {
		t.Fatalf("found %v, which only looks", place)
	}
	time.AfterFunc(lockPatience/2, func() { _ = looking.Close() })
	open(t, Config{Dir: dir})
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var unusable *DirError
	if _, err := Open(Config{Dir: file, Listen: "127.0.0.1:0"}); !errors.As(err, &unusable) || unusable.Dir != file {
		t.Fatalf("got %v, want DirError", err)
	}
	if err := Reset(file); !errors.As(err, &unusable) {
		t.Fatalf("reset: %v, want DirError", err)
	}
}

// A name that is no topic's would be a path.
func TestCreateTopicRefusesNames(t *testing.T) {
	b := open(t, Config{Dir: t.TempDir()})
	for _, name := range []string{"../x", "a/b", "", strings.Repeat("x", 250)} {
		if err := b.CreateTopic(name, 1); err == nil {
			t.Errorf("%q was made", name)
		}
	}
	if err := b.CreateTopic("a", 2); err != nil || b.Partitions("a") != 2 || b.Partitions("b") != 0 {
		t.Fatalf("%v, %d and %d partitions; want 2 and 0", err, b.Partitions("a"), b.Partitions("b"))
	}
}

// The largest record of the protocol fits, in old data too.
func TestLargeRecords(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	b := open(t, Config{Dir: dir})
	if err := b.CreateTopic("t", 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c := client(t, b.Address(), kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: make([]byte, 4<<20)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		c.Close()
		b.Close()
		b = open(t, Config{Dir: dir})
	}
}
