package main

import (
	"bytes"
	"context"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/faultproxy"
)

// step is what becomes of one request with bytes for the partition that a row
// looks at. What is for other partitions passes, unless the connection ends.
type step struct {
	// withheld: the broker does not get the bytes.
	withheld bool
	// code is what the answer says about them; 0: what the broker says.
	code int16
	// cut, mute: the connection ends in place of the answer; no answer comes.
	cut, mute bool
	// away: behind it the leader takes no connection, for a while.
	away bool
}

// The steps by name. What is appended although a refusal is said, and the other
// way round, a test knows as a fact.
var (
	lost      = step{cut: true}
	swallowed = step{cut: true, withheld: true}
	muted     = step{mute: true}
	deaf      = step{mute: true, withheld: true}
)

func says(code int16) step   { return step{code: code} }
func denies(code int16) step { return step{code: code, withheld: true} }

// attempt is one request with bytes for the partition, as it was seen.
type attempt struct {
	request  *faultproxy.Request
	bytes    []byte
	step     step
	scripted bool
	code     int16 // the broker's own; -1: it was not asked, or has not answered
}

func (a attempt) epoch() int16    { return int16(bigendian.BigEndian.Uint16(a.bytes[51:])) }
func (a attempt) sequence() int32 { return int32(bigendian.BigEndian.Uint32(a.bytes[53:])) }

// answering is a cluster with a proxy before it, and what it was asked for one
// partition of the topic NAME.out.
type answering struct {
	t       *testing.T
	ctx     context.Context
	name    string
	client  *kgo.Client // past the proxy
	admin   *kadm.Client
	proxy   *faultproxy.Proxy
	target  faultproxy.Partition
	brokers []string
	env     []string
	// maxRecords is the most records of a batch; 0: adaptive.
	maxRecords int

	// before, where it is not nil and says so, decides about a request in place
	// of the script; after hears what the broker said about the partition.
	before func(*faultproxy.Request) (faultproxy.Plan, bool)
	after  func(*faultproxy.Request, int16)
	// throttled, where it is not nil, hears for how many milliseconds the answer
	// to a write or a fetch asks to wait.
	throttled func(*faultproxy.Request, int32)

	mu       sync.Mutex
	script   []step
	attempts []attempt
	changed  chan struct{}
	away     chan int // brokers that go away
}

// newAnswering makes the topics NAME.in, of so many partitions, and NAME.out, of
// two, and stands before the brokers.
func newAnswering(ctx context.Context, t *testing.T, brokers []string, name string, partitions int32) *answering {
	t.Helper()
	a := &answering{
		t: t, ctx: ctx, name: name, brokers: brokers, target: faultproxy.Partition{Topic: name + ".out", Index: 0},
		changed: make(chan struct{}), away: make(chan int, 16),
	}
	var err error
	a.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.client.Close)
	a.admin = kadm.NewClient(a.client)
	for topic, n := range map[string]int32{name + ".in": partitions, name + ".out": 2} {
		made, err := a.admin.CreateTopic(ctx, n, -1, nil, topic)
		if err = errors.Join(err, made.Err); err != nil {
			t.Fatal(err)
		}
	}
	a.proxy, err = faultproxy.Start(brokers, faultproxy.Config{Requested: a.requested, Answering: a.answered})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.proxy.Close)
	return a
}

func (a *answering) requested(r *faultproxy.Request) faultproxy.Plan {
	if a.before != nil {
		if plan, decided := a.before(r); decided {
			return plan
		}
	}
	records := r.Produced(a.target)
	if records == nil {
		return faultproxy.Plan{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	one := attempt{request: r, bytes: bytes.Clone(records), code: -1}
	if len(a.script) > 0 {
		one.step, one.scripted = a.script[0], true
		a.script = a.script[1:]
	}
	a.attempts = append(a.attempts, one)
	a.tell()
	if one.step.away {
		a.away <- r.Broker
	}
	fate := faultproxy.Fate{Withheld: one.step.withheld, Code: one.step.code}
	return faultproxy.Plan{Fates: map[faultproxy.Partition]faultproxy.Fate{a.target: fate}, Cut: one.step.cut, Mute: one.step.mute}
}

func (a *answering) answered(r *faultproxy.Request, response kmsg.Response) {
	if a.throttled != nil {
		switch response := response.(type) {
		case *kmsg.ProduceResponse:
			a.throttled(r, response.ThrottleMillis)
		case *kmsg.FetchResponse:
			a.throttled(r, response.ThrottleMillis)
		}
	}
	produced, ok := response.(*kmsg.ProduceResponse)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.attempts {
		if a.attempts[i].request != r {
			continue
		}
		for _, topic := range produced.Topics {
			for _, p := range topic.Partitions {
				if topic.Topic == a.target.Topic && p.Partition == a.target.Index {
					a.attempts[i].code = p.ErrorCode
					if a.after != nil {
						a.after(r, p.ErrorCode)
					}
				}
			}
		}
	}
	a.tell()
}

func (a *answering) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// seen are the attempts from number from on.
func (a *answering) seen(from int) []attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]attempt(nil), a.attempts[from:]...)
}

// run starts the program behind the proxy. Requests wait at most 3 s.
func (a *answering) run(command []string, flags ...string) *program {
	a.t.Helper()
	config := filepath.Join(a.t.TempDir(), "flow.yaml")
	text := fmt.Sprintf("bootstrap.servers: %q\nconnection-config:\n  request.timeout.ms: 3000\n  client.id: %s\n", strings.Join(a.proxy.Addresses(), ","), a.name)
	if a.maxRecords > 0 {
		text += fmt.Sprintf("batch:\n  max-records: %d\n", a.maxRecords)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	args := append([]string{"--log-format", "text", "-c", config, "run", "--pipeline", a.name}, flags...)
	env := append([]string{countedChild + "=-", "FLOW_SESSION_TIMEOUT=6s", "FLOW_RECONNECT_MAX_BACKOFF=500ms", "FLOW_METRICS_PORT=0"}, a.env...)
	return startProgram(a.t, programOptions{dir: a.t.TempDir(), env: env}, append(append(args, "--"), command...)...)
}

// keyOn is a key that the Java client's partitioner puts on a partition.
func (a *answering) keyOn(partition int32, row int) []byte {
	place := kgo.StickyKeyPartitioner(nil).ForTopic(a.target.Topic)
	for n := 0; ; n++ {
		key := []byte(fmt.Sprintf("row-%d-%d", row, n))
		if int32(place.Partition(&kgo.Record{Key: key}, 2)) == partition {
			return key
		}
	}
}

// put writes records to a partition of the inlet's topic.
func (a *answering) put(partition int32, records ...*kgo.Record) {
	a.t.Helper()
	for _, r := range records {
		r.Topic, r.Partition = a.name+".in", partition
	}
	if err := a.client.ProduceSync(a.ctx, records...).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
}

// awaitEnd waits until the whole inlet is committed.
func (a *answering) awaitEnd() {
	a.t.Helper()
	var ends kadm.ListedOffsets
	eventually(a.t, "the ends of "+a.name+".in are known", func() bool { // its leader may just have gone
		listed, err := a.admin.ListEndOffsets(a.ctx, a.name+".in")
		ends = listed
		return err == nil && listed.Error() == nil
	})
	eventually(a.t, a.name+" is committed to its end", func() bool {
		offsets, err := a.admin.FetchOffsets(a.ctx, groupNamed(a.name))
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return false // its coordinator moves, perhaps
		}
		done := true
		ends.Each(func(end kadm.ListedOffset) {
			at, _ := offsets.Lookup(end.Topic, end.Partition)
			done = done && at.At >= end.Offset
		})
		return done
	})
}

func groupNamed(name string) string { return name + ".case.in" }

// log is the values on one partition of the outlet.
func (a *answering) log() map[int32][]string {
	a.t.Helper()
	values := map[int32][]string{}
	for p, log := range readLogs(a.ctx, a.t, a.brokers, []string{a.target.Topic})[a.target.Topic] {
		for _, r := range log {
			values[p] = append(values[p], string(r.Value))
		}
	}
	return values
}
