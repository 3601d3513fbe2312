package kafka

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka/faultproxy"
)

// asked is a broker that asks for a wait in its first answers to requests of a
// kind, and notes when requests came and how long was to be waited.
type asked struct {
	mu    sync.Mutex
	waits []time.Duration
	came  []time.Time
}

// next notes a request and gives the wait that its answer asks for.
func (a *asked) next() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.came)
	a.came = append(a.came, time.Now())
	if n < len(a.waits) {
		return a.waits[n]
	}
	return 0
}

// kept wants every wait to have been kept between a request and the next.
func (a *asked) kept(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, wait := range a.waits {
		if i+1 >= len(a.came) {
			t.Fatalf("%d requests, want more than %d", len(a.came), i+1)
		}
		if gap := a.came[i+1].Sub(a.came[i]); gap < wait {
			t.Errorf("request %d came %v after the one before, whose answer asks for a wait of %v", i+1, gap, wait)
		}
	}
}

// A broker over its quota answers a fetch without any topic: no end and no
// failure, and nothing is asked before the wait is over, also not by the other
// loop of the leader. It is said once.
func TestFetch_AThrottledAnswerIsNoEnd(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "t"))
	a := &asked{waits: []time.Duration{300 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond}}
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		wait := a.next()
		if wait == 0 {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.FetchResponse)
		resp.ThrottleMillis = int32(wait / time.Millisecond)
		return resp, nil, true
	})
	write(t, kgoClient(t, cl), "t", 1, 0, 5)
	log, text := logged()
	r := take(t, newTestClient(t, cl.ListenAddrs(), func(cfg *Config) { cfg.Logger = log }), Inlet{Topic: "t", ClientID: "reader"})
	eventually(t, "the records", func() bool { return r.count() == 5 })
	a.kept(t)
	if _, failed := find(r, func(delivery.FetchFailed) bool { return true }); failed {
		t.Error("a throttle was told as a failure")
	}
	if n := strings.Count(text(), "a quota of the cluster holds back reading (client id \\\"reader\\\")"); n != 1 {
		t.Errorf("it is said %d times, want once:\n%s", n, text())
	}
}

// A throttled write is written; what comes behind it waits, one request at a
// time, and nothing is lost or sent twice.
func TestProduce_AThrottledAnswerIsWaitedFor(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	a := &asked{waits: []time.Duration{0, 0, 300 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond}}
	proxy, err := faultproxy.Start(cl.ListenAddrs(), faultproxy.Config{Requested: func(r *faultproxy.Request) (plan faultproxy.Plan) {
		if r.Key == kmsg.Produce {
			plan.Throttle = a.next()
		}
		return plan
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	log, text := logged()
	p, o := newTestProducer(t, newTestClient(t, proxy.Addresses(), func(cfg *Config) { cfg.Logger = log }))
	n := uint64(0)
	write := func() {
		p.Write(n, tp(0), []Out{{Topic: "t", Records: values(n, 1, []byte("k"))}})
		n++
	}
	write()
	eventually(t, "the first write", func() bool { return o.last(0) != nil })
	for range 9 { // one after another, so that there is one request for each
		write()
		eventually(t, "the write", p.Idle)
	}
	a.kept(t)
	var got []string
	for _, r := range readAll(t, cl.ListenAddrs(), "t")["t/0"] {
		got = append(got, string(r.Value))
	}
	var want []string
	for i := range n {
		want = append(want, string(values(i, 1, nil)[0].Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("written: %v, want %v", got, want)
	}
	for i := range n {
		if _, ok := o.last(i).(delivery.Written); !ok || o.unknown(i) {
			t.Errorf("write %d: %v", i, o.last(i))
		}
	}
	if n := strings.Count(text(), "a quota of the cluster holds back writing (client id \\\"test\\\")"); n != 1 {
		t.Errorf("it is said %d times, want once:\n%s", n, text())
	}
}

// What a broken answer asks for is not waited for days.
func TestThrottledIsBounded(t *testing.T) {
	c := newTestClient(t, []string{"127.0.0.1:1"})
	for asked, want := range map[time.Duration]time.Duration{-time.Second: 0, 0: 0, time.Second: time.Second, 24 * time.Hour: throttleMost} {
		if got := c.throttled("reading", "", 0, asked); got != want {
			t.Errorf("asked for %v: %v, want %v", asked, got, want)
		}
	}
}
