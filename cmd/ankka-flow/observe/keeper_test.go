package observe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// lister is a broker that says where topics end.
type lister struct {
	mu    sync.Mutex
	ends  map[int32]int64
	err   error
	hangs bool
	asked []string
}

func (l *lister) list(ctx context.Context, topic string) (map[int32]int64, error) {
	l.mu.Lock()
	l.asked = append(l.asked, topic)
	hangs, ends, err := l.hangs, l.ends, l.err
	l.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return ends, err
}

func (l *lister) set(change func(l *lister)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// kept runs a keeper in a bubble until the test is over.
func kept(t *testing.T, f func(t *testing.T, k *Keeper, st *stage, source *fakeSource, l *lister)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		source, st, l := &fakeSource{}, newStage(t), &lister{}
		source.s.Plan = plan
		k := NewKeeper(KeeperConfig{Watch: st.watch, Source: source, List: l.list, Logger: quiet})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx; awaited below
			defer close(done)
			k.Run(ctx)
		}()
		synctest.Wait()
		f(t, k, st, source, l)
		cancel()
		<-done
	})
}

// after lets the bubble's clock go on.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Not ready from a failure to the next running conversation; alive all the time;
// both gone in the end. What a killed supervisor left is no readiness.
func TestFilesOfTheProbes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "router")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ReadyFile), []byte("4711\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Probe(dir, ReadyFile, time.Now()); err == nil {
		t.Error("what a killed supervisor left is ready")
	}
	kept(t, func(t *testing.T, k *Keeper, st *stage, source *fakeSource, _ *lister) {
		expect := func(when string, ready, alive bool) {
			t.Helper()
			synctest.Wait()
			if got := Probe(dir, ReadyFile, time.Now()); (got == nil) != ready {
				t.Errorf("%s: ready %v", when, got)
			}
			if got := Probe(dir, AliveFile, time.Now()); (got == nil) != alive {
				t.Errorf("%s: alive %v", when, got)
			}
		}
		k.UseDir(dir)
		expect("at first", false, true)
		st.running(1)
		expect("running", true, true)
		st.step(delivery.Exited{Process: 1, Reason: "exit 1", Code: 1})
		expect("the process is gone", false, true)
		after(time.Minute)
		expect("still", false, true)
		st.step(delivery.Ticked{})
		st.now += time.Second
		st.step(delivery.Ticked{})
		st.step(delivery.Launched{Process: st.process})
		st.spec()
		expect("running again", true, true)
		source.set(func(*driver.Snapshot) { source.stuck = true })
		after(AliveWithin + 2*time.Second)
		expect("the loop stands", false, false)
		if k.Alive() {
			t.Error("alive while the loop stands")
		}
		source.set(func(*driver.Snapshot) { source.stuck = false })
		after(2 * time.Second)
		expect("it turns again", true, true)
		if err := os.Remove(filepath.Join(dir, AliveFile)); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		expect("somebody removed the file", true, true)
	})
	if exists(dir, ReadyFile) || exists(dir, AliveFile) {
		t.Error("the files are there after the end")
	}
	if err := Probe(dir, AliveFile, time.Now()); err == nil || !strings.Contains(err.Error(), "no supervisor runs") {
		t.Errorf("after the end: %v", err)
	}
}

// A directory that cannot be written is said once, and hinders nothing.
func TestUnwritableStateDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	kept(t, func(t *testing.T, k *Keeper, _ *stage, _ *fakeSource, _ *lister) {
		k.UseDir(filepath.Join(file, "run"))
		after(time.Minute)
		if !k.Alive() || k.said == "" {
			t.Errorf("alive %v, said %q", k.Alive(), k.said)
		}
	})
	kept(t, func(t *testing.T, k *Keeper, _ *stage, _ *fakeSource, _ *lister) {
		var lines bytes.Buffer
		k.log = slog.New(slog.NewTextHandler(&lines, nil)) // seen by the keeper with the directory
		dir := filepath.Join(t.TempDir(), "run")
		k.UseDir(dir)
		after(time.Second)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		after(time.Minute) // of a try each half second
		if n := strings.Count(lines.String(), "level=WARN"); n != 1 || !k.Alive() {
			t.Errorf("a directory that went away is said %d times; alive %v:\n%s", n, k.Alive(), lines.String())
		}
	})
}

// The ends of a topic are asked for while a partition of it is behind, and only
// then: an idle one's are told by its fetches.
func TestEndsAreAskedForWhileBehind(t *testing.T) {
	kept(t, func(t *testing.T, k *Keeper, _ *stage, source *fakeSource, l *lister) {
		p := delivery.PartitionStatus{TP: tp0, State: "owned", Committed: 5, Confirmed: 5, Position: 5, Since: -1}
		source.set(func(s *driver.Snapshot) {
			s.Ends = endsOf(5)
			s.Partitions = []delivery.PartitionStatus{p}
		})
		after(5 * time.Second)
		if len(l.asked) != 0 {
			t.Errorf("asked %d times about an idle topic", len(l.asked))
		}
		lag := func(when string, want int64) {
			t.Helper()
			s, _ := source.Snapshot(t.Context())
			end, ok := k.ends.end(&s, &s.Partitions[0], "shop.in")
			if got := end - s.Partitions[0].Next(); got != want || !ok {
				t.Errorf("%s: lag %d (%v), want %d", when, got, ok, want)
			}
		}
		lag("idle", 0)
		// It stalls: nothing is fetched any more, and the topic grows.
		p.Since, p.Why = 0, "waiting"
		source.set(func(s *driver.Snapshot) {
			s.Ends = endsOf(6)
			s.Partitions = []delivery.PartitionStatus{p}
		})
		l.set(func(l *lister) { l.ends = map[int32]int64{0: 900} })
		after(time.Second)
		lag("stalled", 895)
		l.set(func(l *lister) { l.ends = map[int32]int64{0: 1000} })
		after(time.Second)
		lag("growing", 995)
		// The broker hangs: what was known stays, and the loop's life is seen.
		l.set(func(l *lister) { l.hangs = true })
		after(time.Minute)
		lag("the broker hangs", 995)
		if !k.Alive() {
			t.Error("not alive while the broker hangs")
		}
		l.set(func(l *lister) { l.hangs, l.err = false, errors.New("no leader") })
		after(10 * time.Second)
		lag("the broker refuses", 995)
		// What a fetch knows is newer than the last answer.
		source.set(func(s *driver.Snapshot) { s.Ends = endsOf(1500) })
		lag("fetched", 1495)
		// Everything is committed: exactly 0, and nobody is asked any more.
		p.Since, p.Why, p.Committed, p.Confirmed, p.Position = -1, "", 1500, 1500, 1500
		source.set(func(s *driver.Snapshot) { s.Partitions = []delivery.PartitionStatus{p} })
		l.set(func(l *lister) { l.ends, l.err = map[int32]int64{0: 1500}, nil })
		after(6 * time.Second)
		l.set(func(l *lister) { l.asked = nil })
		after(10 * time.Second)
		lag("idle again", 0)
		if len(l.asked) != 0 {
			t.Errorf("asked %d times about an idle topic", len(l.asked))
		}
		// The topic was made again: the old end is no end.
		p.Why, p.Since = "blocked", 0
		source.set(func(s *driver.Snapshot) { s.Partitions = []delivery.PartitionStatus{p} })
		l.set(func(l *lister) { l.ends = map[int32]int64{0: 3} })
		after(time.Second)
		s, _ := source.Snapshot(t.Context())
		if end, _ := k.ends.end(&s, &p, "shop.in"); end != 3 {
			t.Errorf("the end of a topic that was made again is %d, want 3", end)
		}
	})
}

// Unknown is not 0: a partition whose end nobody has said yet is asked about.
func TestEndsThatNobodySaid(t *testing.T) {
	s := driver.Snapshot{Plan: plan, Status: delivery.Status{Partitions: []delivery.PartitionStatus{{TP: tp0, State: "owned", Since: -1}}}}
	if got := wanted(&s); !slices.Equal(got, []string{"shop.in"}) {
		t.Errorf("asked about %q", got)
	}
	e := ends{}
	if _, ok := e.end(&s, &s.Partitions[0], "shop.in"); ok {
		t.Error("an end that nobody said is known")
	}
	s.Ends = endsOf(0)
	if got := wanted(&s); len(got) != 0 {
		t.Errorf("an empty topic is asked about: %q", got)
	}
}
