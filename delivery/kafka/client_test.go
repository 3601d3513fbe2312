package kafka

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicsAndOffsets(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(3, "carts"))
	c := newTestClient(t, cl.ListenAddrs())
	ctx := testContext(t)

	infos, err := c.Topics(ctx, "carts", "missing")
	if err != nil {
		t.Fatal(err)
	}
	if infos["carts"].Partitions != 3 || infos["carts"].Err != nil {
		t.Errorf("carts: %+v", infos["carts"])
	}
	var code *CodeError
	if !errors.As(infos["missing"].Err, &code) || code.Code != codeUnknownTopic {
		t.Errorf("missing: %+v", infos["missing"])
	}

	kcl, err := kgo.NewClient(kgo.SeedBrokers(cl.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer kcl.Close()
	for range 5 {
		if err := kcl.ProduceSync(ctx, &kgo.Record{Topic: "carts", Partition: 1, Value: []byte("x"), Timestamp: time.UnixMilli(1000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		at   int64
		want [3]int64
	}{{Earliest, [3]int64{0, 0, 0}}, {Latest, [3]int64{0, 5, 0}}, {1000, [3]int64{0, 0, 0}}, {2000, [3]int64{0, 5, 0}}} {
		got, err := c.ListOffsets(ctx, "carts", tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got[0] != tt.want[0] || got[1] != tt.want[1] || got[2] != tt.want[2] {
			t.Errorf("at %d: %v, want %v", tt.at, got, tt.want)
		}
	}

	if err := kadm.NewClient(kcl).CommitAllOffsets(ctx, "group", kadm.OffsetsFromRecords(kgo.Record{Topic: "carts", Partition: 1, Offset: 2})); err != nil {
		t.Fatal(err)
	}
	got, err := c.CommittedOffsets(ctx, "group", "carts")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[1] != 3 {
		t.Errorf("committed %v, want partition 1 at 3 alone", got)
	}
}

func TestCreateTopics(t *testing.T) {
	cl := newCluster(t)
	c := newTestClient(t, cl.ListenAddrs())
	ctx := testContext(t)
	want := []NewTopic{{Name: "a", Partitions: 4, Replicas: 1, Configs: map[string]string{"cleanup.policy": "compact"}}, {Name: "b"}}
	for range 2 { // the second time they exist
		if err := c.CreateTopics(ctx, want); err != nil {
			t.Fatal(err)
		}
	}
	infos, err := c.Topics(ctx, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if infos["a"].Partitions != 4 || infos["b"].Partitions != 10 {
		t.Errorf("%+v", infos)
	}
	var code *CodeError
	if err := c.CreateTopics(ctx, []NewTopic{{Name: "c", Replicas: 9}}); !errors.As(err, &code) {
		t.Errorf("more replicas than brokers: %v", err)
	}
}

func TestMetadata_ReadingNeverCreatesATopic(t *testing.T) {
	cl := newCluster(t, kfake.AllowAutoTopicCreation())
	c := newTestClient(t, cl.ListenAddrs())
	c.watch("wanted")
	eventually(t, "the topic is known to be missing", func() bool {
		n, ok := c.partitions("wanted")
		return ok && n == 0 && c.topicCode("wanted") == codeUnknownTopic
	})
	infos, err := c.Topics(testContext(t), "wanted")
	if err != nil || infos["wanted"].Err == nil {
		t.Errorf("%+v, %v", infos, err)
	}
}

func TestMetadata_SeesCreationGrowthAndLeaderMoves(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(3))
	c := newTestClient(t, cl.ListenAddrs())
	ctx := testContext(t)
	c.watch("late")
	eventually(t, "the topic is known to be missing", func() bool { _, ok := c.partitions("late"); return ok })

	kcl, err := kgo.NewClient(kgo.SeedBrokers(cl.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer kcl.Close()
	adm := kadm.NewClient(kcl)
	if _, err := adm.CreateTopic(ctx, 2, 1, nil, "late"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two partitions", func() bool { n, _ := c.partitions("late"); return n == 2 })
	if _, err := adm.UpdatePartitions(ctx, 5, "late"); err != nil {
		t.Fatal(err)
	}
	c.stale("late")
	eventually(t, "five partitions", func() bool { n, _ := c.partitions("late"); return n == 5 })

	for node := range int32(3) {
		changed := c.changed()
		if err := cl.MoveTopicPartition("late", 0, node); err != nil {
			t.Fatal(err)
		}
		c.stale("late")
		eventually(t, "the new leader", func() bool { got, ok := c.leader("late", 0); return ok && got == node })
		_ = changed
	}
	if _, ok := c.leader("late", 5); ok {
		t.Error("a partition that does not exist has a leader")
	}
}

func TestExchange_SeveralFramesOnOneConnection(t *testing.T) {
	cl := newCluster(t)
	c := newTestClient(t, cl.ListenAddrs())
	ctx := testContext(t)
	if err := c.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	body := append(appendInt32(nil, 0), 0, 0, 0)
	var frames []byte
	for id := range int32(5) {
		frames = appendFrame(frames, metadataKey, metadataVersion, id, "", body)
	}
	got := 0
	handedOver, err := c.exchange(ctx, 0, func(rw io.ReadWriter) error {
		if _, err := rw.Write(frames); err != nil {
			return err
		}
		for id := range int32(5) {
			if _, err := readFrame(rw, metadataKey, metadataVersion, id, nil); err != nil {
				return err
			}
			got++
		}
		return nil
	})
	if !handedOver || err != nil || got != 5 {
		t.Errorf("handed over %v, %d answers, %v", handedOver, got, err)
	}
}

func TestR9_ExchangeKnowsWhetherAnythingWasSent(t *testing.T) {
	cl := newCluster(t)
	c := newTestClient(t, cl.ListenAddrs())
	ctx := testContext(t)
	if err := c.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	never := func(io.ReadWriter) error { t.Error("the exchange ran"); return nil }

	if sent, err := c.exchange(ctx, 99, never); sent || !errors.Is(err, errUnknownNode) {
		t.Errorf("unknown broker: %v, %v", sent, err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if sent, err := c.exchange(over, 0, never); sent || err == nil {
		t.Errorf("context over: %v, %v", sent, err)
	}
	failed := errors.New("failed")
	if sent, err := c.exchange(ctx, 0, func(io.ReadWriter) error { return failed }); sent || !errors.Is(err, failed) {
		t.Errorf("nothing written: %v, %v", sent, err)
	}
	one := func(rw io.ReadWriter) error { rw.Write([]byte{0}); return failed }
	if sent, err := c.exchange(ctx, 0, one); !sent || !errors.Is(err, failed) {
		t.Errorf("one byte written: %v, %v", sent, err)
	}
	if err := c.Probe(ctx); err != nil { // a good connection lies in the pool
		t.Fatal(err)
	}
	addr, _ := c.nodeAddr(0)
	cl.Close()
	eventually(t, "nothing listens and the connections are closed", func() bool {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
			return false
		}
		c.conns.mu.Lock()
		defer c.conns.mu.Unlock()
		for g := range c.conns.open {
			if !hungUp(g.Conn) {
				return false
			}
		}
		return true
	})
	// Pooled connections are dead: that is seen before anything is written.
	hungUp := 0
	for range 3 {
		sent, err := c.exchange(ctx, 0, func(rw io.ReadWriter) error {
			_, err := rw.Write([]byte{0, 0, 0, 0})
			if err == nil {
				_, err = readFrame(rw, metadataKey, metadataVersion, 0, nil)
			}
			return err
		})
		if err == nil || sent {
			t.Errorf("broker gone: handed over %v, %v", sent, err)
		}
		if errors.Is(err, errHungUp) {
			hungUp++
		}
	}
	if hungUp == 0 {
		t.Error("no dead connection was in the pool: this test shows nothing")
	}
}

// A cancelled exchange ends at once and its function has returned.
func TestExchange_CancelEndsALongWait(t *testing.T) {
	cl := newCluster(t)
	c := newTestClient(t, cl.ListenAddrs())
	if err := c.Probe(testContext(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	returned := false
	begun := make(chan struct{})
	go func() { <-begun; cancel() }()
	sent, err := c.exchange(ctx, 0, func(rw io.ReadWriter) error {
		rw.Write([]byte{0})
		close(begun)
		_, err := rw.Read(make([]byte, 1)) // the broker has nothing to say
		returned = true
		return err
	})
	if !sent || !errors.Is(err, context.Canceled) || !returned {
		t.Errorf("%v, %v, returned %v", sent, err, returned)
	}
}

// silent accepts connections and never answers.
func silent(t testing.TB) (addr string, accepted *int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := new(int)
	done := make(chan struct{})
	var open []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			*n++
			open = append(open, c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range open {
			c.Close()
		}
	})
	return l.Addr().String(), n
}

func TestCase61_ABrokerThatNeverAnswers(t *testing.T) {
	addr, _ := silent(t)
	c := newTestClient(t, []string{addr})
	c.watch("carts")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	err := c.Probe(ctx)
	if err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("probe: %v", err)
	}
	begin := time.Now()
	c.Close()
	if d := time.Since(begin); d > time.Second {
		t.Errorf("Close took %v", d)
	}
}

// stalledSASL answers the first request as a broker does, by way of a real one,
// and swallows everything that follows.
func stalledSASL(t testing.TB, broker string) string { return stalling(t, broker, 1) }

// stalling relays that many answers of each connection, and then none.
func stalling(t testing.TB, broker string, answers int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer down.Close()
				up, err := net.Dial("tcp", broker)
				if err != nil {
					return
				}
				defer up.Close()
				defer context.AfterFunc(over, func() { down.Close(); up.Close() })()
				for range answers {
					relayFrame(up, down)
					relayFrame(down, up)
				}
				io.Copy(io.Discard, down)
			})
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); wg.Wait() })
	return l.Addr().String()
}

func relayFrame(dst, src net.Conn) {
	var head [4]byte
	if _, err := io.ReadFull(src, head[:]); err != nil {
		return
	}
	dst.Write(head[:])
	io.CopyN(dst, src, int64(binary.BigEndian.Uint32(head[:])))
}

func TestCase61_ABrokerThatStallsInSASL(t *testing.T) {
	cl := newCluster(t)
	addr := stalledSASL(t, cl.ListenAddrs()[0])
	c := newTestClient(t, []string{addr}, func(cfg *Config) {
		cfg.SASL = plain.Mechanism{Username: "u", Password: "p"}
		cfg.RequestTimeout = time.Hour // so that only Close can end it
	})
	c.watch("carts")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := c.Probe(ctx); err == nil {
		t.Error("the probe succeeded")
	}
	begin := time.Now()
	c.Close()
	if d := time.Since(begin); d > time.Second {
		t.Errorf("Close took %v", d)
	}
}

// certificate makes a self-signed one for 127.0.0.1.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestCase60_ProbeNamesTheCause(t *testing.T) {
	cert, pool := certificate(t)
	serverTLS := &tls.Config{Certificates: []tls.Certificate{cert}}
	trusting := &tls.Config{RootCAs: pool}
	plainAuth := plain.Mechanism{Username: "bob", Password: "right"}
	wrong := plain.Mechanism{Username: "bob", Password: "wrong"}
	scramAuth, err := scram.Mechanism(scram.SHA512, "bob", "right")
	if err != nil {
		t.Fatal(err)
	}
	scramWrong, err := scram.Mechanism(scram.SHA512, "bob", "wrong")
	if err != nil {
		t.Fatal(err)
	}
	open := newCluster(t)
	secret := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "bob", "right"), kfake.Superuser("SCRAM-SHA-512", "bob", "right"))
	sealed := newCluster(t, kfake.TLS(serverTLS))
	both := newCluster(t, kfake.TLS(serverTLS), kfake.EnableSASL(), kfake.Superuser("PLAIN", "bob", "right"))

	for _, tt := range []struct {
		name string
		cl   *kfake.Cluster
		cfg  func(*Config)
		want string // "": it works
	}{
		{"open", open, func(*Config) {}, ""},
		{"SASL PLAIN", secret, func(c *Config) { c.SASL = plainAuth }, ""},
		{"SASL SCRAM", secret, func(c *Config) { c.SASL = scramAuth }, ""},
		{"TLS", sealed, func(c *Config) { c.TLS = trusting }, ""},
		{"TLS and SASL", both, func(c *Config) { c.TLS, c.SASL = trusting, plainAuth }, ""},
		{"wrong password", secret, func(c *Config) { c.SASL = wrong }, "SASL"},
		{"wrong SCRAM password", secret, func(c *Config) { c.SASL = scramWrong }, "SASL"},
		{"no SASL to a SASL port", secret, func(*Config) {}, "SASL"},
		{"plain to a TLS port", sealed, func(*Config) {}, "TLS"},
		{"TLS to a plain port", open, func(c *Config) { c.TLS = trusting }, "TLS"},
		{"unknown authority", sealed, func(c *Config) { c.TLS = &tls.Config{} }, "authority"},
		{"wrong password over TLS", both, func(c *Config) { c.TLS, c.SASL = trusting, wrong }, "SASL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestClient(t, tt.cl.ListenAddrs(), tt.cfg)
			begin := time.Now()
			err := c.Probe(testContext(t))
			if d := time.Since(begin); d > 8*time.Second {
				t.Errorf("took %v", d)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v does not name %q", err, tt.want)
			}
		})
	}
	t.Run("nothing listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		c := newTestClient(t, []string{addr})
		if err := c.Probe(testContext(t)); err == nil || !strings.Contains(err.Error(), "nothing listens") {
			t.Error(err)
		}
	})
}

func TestProbe_TriesEveryBootstrapAddress(t *testing.T) {
	cl := newCluster(t)
	hole, _ := silent(t)
	c := newTestClient(t, append([]string{hole}, cl.ListenAddrs()...), func(cfg *Config) { cfg.DialTimeout = 100 * time.Millisecond })
	if err := c.Probe(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func TestNewClient_RefusesWhatCannotWork(t *testing.T) {
	for _, brokers := range [][]string{nil, {"nohost"}, {"a:1", "b"}} {
		if c, err := NewClient(Config{Brokers: brokers}); err == nil {
			c.Close()
			t.Errorf("%q was accepted", brokers)
		}
	}
}

func TestCase62_StartsAndStopsLeaveNothing(t *testing.T) {
	leavesNothing(t, newCluster(t, kfake.SeedTopics(1, "t")).ListenAddrs(), "t")
}

// leavesNothing starts and stops clients that ask brokers for a topic's ends.
func leavesNothing(t *testing.T, brokers []string, topic string) {
	t.Helper()
	ctx := testContext(t)
	before := runtime.NumGoroutine()
	for range 20 {
		c, err := NewClient(Config{Brokers: brokers})
		if err != nil {
			t.Fatal(err)
		}
		c.watch(topic)
		if _, err := c.ListOffsets(ctx, topic, Latest); err != nil {
			t.Error(err)
		}
		c.Close()
		c.conns.mu.Lock()
		if n := len(c.conns.open); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		c.conns.mu.Unlock()
		if _, err := c.exchangeAt(ctx, brokers[0], nil); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestReadFrame_RefusesWhatIsNotOurs(t *testing.T) {
	good := []byte{0, 0, 0, 5, 0, 0, 0, 7, 42}
	if body, err := readFrame(bytes.NewReader(good), metadataKey, metadataVersion, 7, nil); err != nil || !bytes.Equal(body, []byte{42}) {
		t.Errorf("%v, %v", body, err)
	}
	for name, src := range map[string][]byte{
		"another correlation": {0, 0, 0, 5, 0, 0, 0, 8, 42},
		"too long":            {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 7},
		"negative":            {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 7},
		"too short":           {0, 0, 0, 3, 0, 0, 7},
		"cut off":             {0, 0, 0, 9, 0, 0, 0, 7},
	} {
		if _, err := readFrame(bytes.NewReader(src), metadataKey, metadataVersion, 7, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The headers are checked against franz-go's, for both header versions.
func TestAppendFrame_AgreesWithFranzGo(t *testing.T) {
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me"))
	for _, tt := range []struct{ key, version int16 }{{3, 8}, {1, 10}, {9, 7}, {22, 4}, {10, 2}, {11, 5}, {11, 6}} {
		req := kmsg.RequestForKey(tt.key)
		req.SetVersion(tt.version)
		if f, ok := req.(*kmsg.MetadataRequest); ok {
			f.Topics = []kmsg.MetadataRequestTopic{}
		}
		want := format.AppendRequest(nil, req, 77)
		got := appendFrame(nil, tt.key, tt.version, 77, "me", req.AppendTo(nil))
		if !bytes.Equal(got, want) {
			t.Errorf("key %d v%d:\n got %x\nwant %x", tt.key, tt.version, got, want)
		}
	}
}

// franz-go writes what we read, in every version that we ask for, and reads
// what we write.
func TestMetadata_AgreesWithFranzGo(t *testing.T) {
	for _, version := range []int16{metadataVersion, metadataWithIDs, 11, metadataNewest} {
		answer := kmsg.NewPtrMetadataResponse()
		answer.SetVersion(version)
		broker, topic, partition := kmsg.NewMetadataResponseBroker(), kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = 3, "host", 9092, kmsg.StringPtr("rack")
		partition.Partition, partition.Leader, partition.Replicas, partition.ISR = 0, 3, []int32{3, 4}, []int32{3}
		topic.Topic, topic.TopicID = kmsg.StringPtr("topic"), [16]byte{1, 2}
		topic.Partitions = append(topic.Partitions, partition)
		answer.Brokers, answer.ClusterID, answer.ControllerID = append(answer.Brokers, broker), kmsg.StringPtr("id"), 4
		answer.Topics = append(answer.Topics, topic)
		got, err := decodeMetadataAt(answer.AppendTo(nil), version)
		want := topicMeta{leaders: []int32{3}}
		if version >= metadataWithIDs {
			want.id = topic.TopicID
		}
		if err != nil || got.controller != 4 || got.brokers[3] != "host:9092" || !reflect.DeepEqual(got.topics["topic"], want) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		asked := kmsg.NewPtrMetadataRequest()
		asked.SetVersion(version)
		if err := asked.ReadFrom(appendMetadata(nil, version, []string{"a", "b"})); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		if len(asked.Topics) != 2 || *asked.Topics[1].Topic != "b" || asked.AllowAutoTopicCreation {
			t.Errorf("version %d: %+v", version, asked)
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, src []byte) {
		decodeMetadata(src)
		decodeMetadataAt(src, metadataNewest)
	})
}
