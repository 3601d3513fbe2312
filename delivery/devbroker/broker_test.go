package devbroker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
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
		t.Fatalf("found %s where none runs", address)
	}
	b := open(t, Config{Dir: dir})
	if address, ok := Find(ctx, dir); !ok || address != b.Address() {
		t.Fatalf("found %q, %v; want %s", address, ok, b.Address())
	}
	var inUse *InUseError
	if _, err := Open(Config{Dir: dir, Listen: "127.0.0.1:0"}); !errors.As(err, &inUse) || inUse.Address != b.Address() {
		t.Fatalf("a second one: %v; want InUseError with %s", err, b.Address())
	}
	b.Close()
	if address, ok := Find(ctx, dir); ok {
		t.Fatalf("found %s after it closed", address)
	}
}

// One that was killed leaves an address behind; it is not believed.
func TestStaleAddressIsNotBelieved(t *testing.T) {
	dir, ctx := t.TempDir(), deadline(t)
	if err := writeAddress(dir, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if address, ok := Find(ctx, dir); ok {
		t.Fatalf("found %s", address)
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
}
