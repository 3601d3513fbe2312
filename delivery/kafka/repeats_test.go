package kafka

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A broker that is away is said once for a cause, another cause of it at most every
// 10 s, and its return once, however often it is tried meanwhile.
func TestABrokersCausesAreSaidAtMostEvery10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := logged()
		c := &Client{log: log, ctx: t.Context()}
		c.reach.init()
		fails := func(cause string) {
			c.dialled("a:1", &ConnectError{Address: "a:1", Cause: cause, Err: errors.New(cause)})
		}
		c.dialled("a:1", nil)
		tries := 0
		for began := time.Now(); time.Since(began) < time.Minute; { // it starts again: the cause changes all the time
			fails([]string{"nothing listens there", "it hangs up", "it is silent"}[tries%3])
			tries++
			<-time.After(100 * time.Millisecond)
		}
		if n := strings.Count(logs(), "is away"); n < 2 || n > 7 {
			t.Errorf("said %d times in a minute and %d tries:\n%s", n, tries, logs())
		}
		for range 100 {
			c.dialled("a:1", nil)
		}
		before := strings.Count(logs(), "is away")
		for range 600 {
			fails("nothing listens there")
			<-time.After(100 * time.Millisecond)
		}
		if n := strings.Count(logs(), "is away"); n != before+1 {
			t.Errorf("one cause is said %d times", n-before)
		}
		if n := strings.Count(logs(), "broker a:1 is back"); n != 1 {
			t.Errorf("its return is said %d times", n)
		}
	})
}

// A broker that the cluster names by an address at which nobody ever reached it needs
// a person, who is told once.
func TestAnAddressThatWasNeverReachedIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := logged()
		c := &Client{log: log, ctx: t.Context()}
		c.reach.init()
		c.meta.brokers = map[int32]string{1: "b:1"}
		for range 600 {
			c.dialled("b:1", &ConnectError{Address: "b:1", Cause: "nothing listens there", Err: errors.New("refused")})
			<-time.After(100 * time.Millisecond)
		}
		if n := strings.Count(logs(), "level=ERROR"); n != 1 || strings.Count(logs(), "b:1, as the cluster names it (advertised.listeners)") != 1 {
			t.Errorf("said %d times as an error:\n%s", n, logs())
		}
	})
}

// What keeps the producer from sending is said at most every 10 s for each kind.
func TestTroubleOfTheProducerIsSaidAtMostEvery10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := logged()
		p := &Producer{c: &Client{log: log}, ctx: t.Context(), warned: map[string]time.Time{}}
		for range 600 { // a minute
			p.warn(slog.LevelWarn, "send", "records cannot be sent")
			p.warn(slog.LevelWarn, "id", "no producer id yet")
			<-time.After(100 * time.Millisecond)
		}
		for _, text := range []string{"records cannot be sent", "no producer id yet"} {
			if n := strings.Count(logs(), text); n != 6 {
				t.Errorf("%q is said %d times in a minute", text, n)
			}
		}
	})
}

// A topic that does not exist is said once, however often it is looked for, and as
// something that may come by itself; when it is there, it is read.
func TestAMissingTopicIsSaidOnce(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "other"))
	var asked atomic.Int32
	cl.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	log, logs := logged()
	c := newTestClient(t, cl.ListenAddrs(), func(c *Config) { c.Logger = log })
	r := take(t, c, Inlet{Topic: "late", Group: "group"})
	const line = `level=WARN msg="the topic does not exist; waiting for it"`
	eventually(t, "it is said", func() bool { return strings.Contains(logs(), line) })
	before := asked.Load()
	eventually(t, "it is looked for again", func() bool { return asked.Load() >= before+5 })
	client := kgoClient(t, cl)
	if _, err := kadm.NewClient(client).CreateTopic(testContext(t), 1, 1, nil, "late"); err != nil {
		t.Fatal(err)
	}
	write(t, client, "late", 1, 0, 3)
	eventually(t, "the records come", func() bool { return r.count() == 3 })
	if n := strings.Count(logs(), "the topic does not exist"); n != 1 {
		t.Errorf("said %d times in %d questions:\n%s", n, asked.Load(), logs())
	}
}
