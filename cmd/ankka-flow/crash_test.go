package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/faultproxy"
)

// crashEach is how many points there are to one that is tried, unless
// CRASH_EVERY=1 wants all of them.
const crashEach = 6

// crash is one run of a short stream, in which something is killed at its nth
// externally visible action: a request that reaches a broker, an answer that a
// broker has given, a frame that goes to the streamlet or comes from it.
type crash struct {
	t       *testing.T
	ctx     context.Context
	cluster *kfake.Cluster
	proxy   *faultproxy.Proxy
	frames  net.Listener
	served  sync.WaitGroup
	dir     string

	mu      sync.Mutex
	p       *program
	child   bool // the streamlet is killed, at its nth frame
	limit   int
	count   int
	killed  string // the action
	lose    bool   // a request at which it is killed does not arrive
	commits []crashCommit
}

// crashCommit is a commit as it reached the broker, with what the outlet held.
type crashCommit struct {
	partition   int32
	offset, end int64
}

const crashRecords = 3 // a partition

func newCrash(ctx context.Context, t *testing.T, limit int, child, lose bool) *crash {
	t.Helper()
	c := &crash{t: t, ctx: ctx, dir: t.TempDir(), limit: limit, child: child, lose: lose}
	var err error
	if c.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, caseIn), kfake.SeedTopics(1, caseOut)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cluster.Close)
	client, _ := franz(t, c.cluster.ListenAddrs()[0])
	for partition := range int32(2) {
		for i := range crashRecords {
			r := &kgo.Record{Topic: caseIn, Partition: partition, Value: []byte(fmt.Sprintf("%d-%d", partition, i))}
			if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.proxy, err = faultproxy.Start(c.cluster.ListenAddrs(), faultproxy.Config{Requested: c.requested, Answering: c.answered}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.proxy.Close)
	if c.frames, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c.served.Go(c.serveChildren)
	t.Cleanup(func() {
		_ = c.frames.Close()
		c.served.Wait()
	})
	return c
}

func (c *crash) requested(r *faultproxy.Request) faultproxy.Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	if commit, ok := r.Body.(*kmsg.OffsetCommitRequest); ok {
		end := c.cluster.PartitionInfos(caseOut)[0].HighWatermark
		for _, topic := range commit.Topics {
			for _, p := range topic.Partitions {
				c.commits = append(c.commits, crashCommit{p.Partition, p.Offset, end})
			}
		}
	}
	if !c.child && c.act("the request "+r.Key.Name()) && c.lose {
		return faultproxy.Plan{Withheld: true, Cut: true}
	}
	return faultproxy.Plan{}
}

func (c *crash) answered(r *faultproxy.Request, _ kmsg.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.child {
		c.act("the answer to " + r.Key.Name())
	}
}

// act counts an action, and kills at the nth; mu is held.
func (c *crash) act(what string) bool {
	if c.killed != "" {
		return false
	}
	if c.count++; c.count != c.limit {
		return false
	}
	c.killed = what
	if !c.child {
		_ = c.p.cmd.Process.Kill() // it is there: it is what acts
		<-c.p.exited
	}
	return true
}

// serveChildren answers every frame that a streamlet tells of.
func (c *crash) serveChildren() {
	for {
		conn, err := c.frames.Accept()
		if err != nil {
			return
		}
		c.served.Go(func() {
			defer conn.Close()
			told := []byte{0}
			for {
				if n, err := conn.Read(told); n == 0 || err != nil {
					return
				}
				c.mu.Lock()
				told[0] = frameGoesOn
				if c.act("a frame") && c.child {
					told[0] = frameKills
				}
				c.mu.Unlock()
				if _, err := conn.Write(told); err != nil {
					return
				}
			}
		})
	}
}

// run is the stream until its end, or until it is killed.
func (c *crash) run() int {
	c.mu.Lock()
	c.p = startProgram(c.t, programOptions{dir: c.dir, env: caseEnv(countedChild+"="+c.frames.Addr().String(), "FLOW_METRICS_PORT=0")},
		append([]string{"--log-format", "text", "run", "-b", c.proxy.Addresses()[0], "--until-end", "--"}, countedCommand()...)...)
	p := c.p
	c.mu.Unlock()
	return p.wait()
}

// crashed runs the stream with a kill and then, where the supervisor was killed,
// to its end; done: it came to its end without a kill.
func crashed(ctx context.Context, t *testing.T, limit int, child, lose bool) (killed string) {
	t.Helper()
	c := newCrash(ctx, t, limit, child, lose)
	code := c.run()
	c.mu.Lock()
	killed = c.killed
	c.mu.Unlock()
	if killed != "" && !child {
		if code != 128+9 {
			t.Fatalf("exit code %d, and it was killed", code)
		}
		code = c.run()
	}
	if code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	c.check()
	return killed
}

// check: nothing is lost or reordered, what is there twice goes back to a
// commit, and no commit came before its outputs.
func (c *crash) check() {
	c.t.Helper()
	log := readLogs(c.ctx, c.t, c.cluster.ListenAddrs(), []string{caseOut})[caseOut][0]
	first := map[string]int64{}
	next := map[string]int{}
	for _, r := range log {
		var partition string
		var i int
		if _, err := fmt.Sscanf(strings.Replace(string(r.Value), "-", " ", 1), "%s %d", &partition, &i); err != nil {
			c.t.Fatalf("written: %q", r.Value)
		}
		if i > next[partition] {
			c.t.Fatalf("%s: record %d comes where %d is due", partition, i, next[partition])
		}
		next[partition] = i + 1
		if _, again := first[string(r.Value)]; !again {
			first[string(r.Value)] = r.Offset
		}
	}
	if len(first) != 2*crashRecords || next["0"] != crashRecords || next["1"] != crashRecords {
		c.t.Fatalf("written: %v, ending at %v", slices.Sorted(maps.Keys(first)), next)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := map[int32]int64{}
	for _, commit := range c.commits {
		if commit.offset < newest[commit.partition] {
			c.t.Errorf("partition %d: a commit of %d after one of %d", commit.partition, commit.offset, newest[commit.partition])
		}
		newest[commit.partition] = commit.offset
		for i := range commit.offset {
			if at := first[fmt.Sprintf("%d-%d", commit.partition, i)]; at >= commit.end {
				c.t.Errorf("partition %d: a commit of %d was sent before record %d was written", commit.partition, commit.offset, i)
			}
		}
	}
	info := c.cluster.GroupInfo(caseGroup)
	for partition := range int32(2) {
		if at := info.Commits[caseIn][partition].Offset; at != crashRecords {
			c.t.Errorf("partition %d is committed at %d, want %d", partition, at, crashRecords)
		}
	}
}

// Killed at its first action, its second, and so on, until the stream completes
// first: the supervisor with the request carried out, the supervisor with the
// request lost, and the streamlet at each of its frames.
func TestCrashAtEveryAction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		child, lose bool
		each        int
	}{
		{"supervisor, what it asked for is done", false, false, crashEach},
		{"supervisor, what it asked for is lost", false, true, crashEach},
		{"streamlet", true, false, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 10*testLimit)
			t.Cleanup(cancel)
			each := tt.each
			if os.Getenv("CRASH_EVERY") == "1" {
				each = 1
			}
			kinds := map[string]int{}
			points := 0
			for n := 1 + rand.IntN(each); ; n += each {
				killed := ""
				if !t.Run(fmt.Sprint(n), func(t *testing.T) { killed = crashed(ctx, t, n, tt.child, tt.lose) }) {
					t.FailNow()
				}
				if killed == "" {
					break
				}
				points++
				kinds[killed]++
			}
			t.Logf("%d points: %v", points, kinds)
			if points < 3 {
				t.Errorf("%d points: nothing is counted", points)
			}
		})
	}
}
