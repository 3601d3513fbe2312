package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// saved is a streamlet that is saved over and over. Each of its processes holds a
// file with an exclusive lock from its first line to its last moment: a second one
// at the same time finds it locked and says so.
type saved struct {
	b      *caseBroker
	script string
	number int
}

const savedText = `
import fcntl, os, sys
_lock = open(os.path.join(os.path.dirname(__file__), ".lock"), "w")
try:
    fcntl.flock(_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("TWO AT ONCE", file=sys.stderr)
print("began as", %d, file=sys.stderr, flush=True)
%s
from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

class Case(Streamlet):
    name = "case"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")

    def process_record(self, record, ctx):
%s

serve(Case())
`

func nthRecord(n int) *kgo.Record {
	return &kgo.Record{Key: fmt.Appendf(nil, "k%d", n), Value: []byte("v")}
}

const emits = "        return self.out.emit(record)"

func newSaved(t *testing.T, top, handler string) *saved {
	t.Helper()
	s := &saved{b: newCaseBroker(t), script: filepath.Join(t.TempDir(), "streamlet.py")}
	s.save(top, handler)
	return s
}

// save is what an editor does, and returns the number that the program prints. The
// text is there whole or not at all: a process that begins between the two steps of
// a write in place reads an empty file, which is a program that ends.
func (s *saved) save(top, handler string) int {
	s.b.t.Helper()
	s.number++
	text := fmt.Sprintf(savedText, s.number, top, handler)
	whole := s.script + ".new"
	err := os.WriteFile(whole, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(whole, s.script)
	}
	if err != nil {
		s.b.t.Fatal(err)
	}
	return s.number
}

func (s *saved) run() *program {
	s.b.t.Helper()
	return s.b.runCase([]string{"FLOW_RECONNECT_MAX_BACKOFF=5m"}, []string{"--watch", "-c", s.b.config("batch: {max-records: 4}\n")}, []string{"python3", s.script})
}

// repeatsAtMost reads the outlet's log: the records k0 ... of the one partition are there,
// and what is there again goes back by no more than one batch, no more often than there were
// reloads.
func (s *saved) repeatsAtMost(reloads, batch, records int) {
	s.b.t.Helper()
	steps, next := 0, 0
	for at, r := range s.b.out() {
		n := atoi(s.b.t, strings.TrimPrefix(string(r.Key), "k"))
		if n > next || n < next-batch {
			s.b.t.Errorf("written %d-th: k%d, while k%d is the next", at, n, next)
		}
		if n != next {
			steps++
		}
		next = n + 1
	}
	if next != records || steps > reloads {
		s.b.t.Errorf("the last is k%d of %d; %d steps back by %d reloads", next-1, records, steps, reloads)
	}
}

// ends stops the program and checks what holds always.
func (s *saved) ends(p *program) {
	s.b.t.Helper()
	p.stopsWell()
	if strings.Contains(p.stderr(), "TWO AT ONCE") {
		s.b.t.Error("two processes at once")
	}
}

// Case 63: fifty saves in two seconds, while records come: never two processes, the
// last text runs in the end, every record is there, and each reload repeats at most
// the one batch of the partition that it interrupted.
func TestCase63_FiftySaves(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "", emits)
	p := s.run()
	p.await(`ready +`)
	var writer sync.WaitGroup
	writer.Go(func() { // ends by itself; awaited below
		for n := range 50 {
			s.b.put(nthRecord(2*n), nthRecord(2*n+1))
		}
	})
	tick := time.NewTicker(40 * time.Millisecond) // the case itself: two seconds
	defer tick.Stop()
	last := 0
	for range 50 {
		<-tick.C
		last = s.save("", emits)
	}
	writer.Wait()
	p.await(fmt.Sprintf(`began as %d$`, last))
	s.b.awaitCommit(100)
	reloads := len(regexp.MustCompile(`(?m)^INF reload `).FindAllString(p.stderr(), -1))
	if reloads == 0 || reloads > 12 {
		t.Errorf("%d reloads by 50 saves in 2 s", reloads)
	}
	s.repeatsAtMost(reloads, 4, 100)
	if strings.Contains(p.stderr(), "ERR") || strings.Contains(p.stderr(), "WRN") {
		t.Error("a reload is no failure")
	}
	s.ends(p)
}

// A save while the process still starts, and one while its failures back off: the
// new text runs at once. (The backoff would be minutes, the start is for ever.)
func TestCase63_SaveDuringStartAndBackoff(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "import threading; threading.Event().wait()", emits)
	s.b.putN(1)
	p := s.run()
	p.await(`began as 1$`)
	s.save("", `        raise ValueError("not yet")`)
	p.await(`(waiting +[248]s, then the process|again in [248]s)`) // of the third failure or a later one
	at := p.count()
	s.save("", emits)
	p.awaitFrom(at, `reload +streamlet.py changed`)
	s.b.awaitCommit(1)
	s.ends(p)
}

// A save while a handler takes long: it is waited for, for five seconds, and then
// its batch comes again, once, to the new text alone; the old process is gone.
func TestCase63_SaveDuringALongDrain(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "", "        print('hangs', file=sys.stderr, flush=True); __import__('threading').Event().wait()")
	s.b.putN(3)
	p := s.run()
	p.await(`hangs`)
	two := s.save("", emits)
	p.await(`reload +streamlet.py changed`)
	three := s.save("", emits) // while it drains
	s.b.awaitCommit(3)
	if got := keys(s.b.out()); got != "k0 k1 k2" {
		t.Errorf("written: %s", got)
	}
	if !regexp.MustCompile(fmt.Sprintf(`began as (%d|%d)\n`, two, three)).MatchString(p.stderr()) {
		t.Error("the new text did not run")
	}
	s.ends(p)
}

// A crash waits for the next save, and for nothing else; then it goes on at once.
func TestCase63_ACrashWaitsForTheSave(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "", "        os._exit(3)")
	s.b.putN(1)
	p := s.run()
	p.await(`ERR process +exit 3`)
	p.await(`waiting +for the next save`)
	began := strings.Count(p.stderr(), "began as")
	s.save("", emits)
	s.b.awaitCommit(1)
	if began != 1 || strings.Count(p.stderr(), "began as") != 2 {
		t.Error("it was started without a save")
	}
	s.ends(p)
}

// Case 64: what the streamlet writes beside its source, bytecode and hidden files and
// other kinds of files, is no save.
func TestCase64_WritesInTheWatchedFolderAreNoSave(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "", `
        here = os.path.dirname(__file__)
        for name in ("out.csv", ".state.py", "log.log", "x.py~", "__pycache__/x.py"):
            os.makedirs(os.path.dirname(os.path.join(here, name)), exist_ok=True)
            with open(os.path.join(here, name), "a") as f:
                f.write("x")
        return self.out.emit(record)`)
	p := s.run()
	for n := range 10 {
		s.b.putN(1)
		s.b.awaitCommit(int64(n + 1))
	}
	// What comes after a save that is one proves that the others were looked at.
	s.save("", emits)
	p.await(`began as 2$`)
	if n := strings.Count(p.stderr(), "INF reload "); n != 1 {
		t.Errorf("%d reloads, want that of the save alone", n)
	}
	s.ends(p)
}
