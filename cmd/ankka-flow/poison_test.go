package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// poisons are the ways in which a record fails for ever.
var poisons = []struct{ name, handler, said string }{
	{"raises", `raise ValueError("poison")`, "failed"},
	{"kills", `__import__("signal").raise_signal(11)`, "killed the process"},
	{"hangs", `__import__("threading").Event().wait()`, "was not answered in time"},
}

func poisoned(handler string) string {
	return fmt.Sprintf(`
        if record.value == b"poison":
            %s
        return self.out.emit(record)
`, handler)
}

// keyed are records with the keys from-0 ..., on one partition.
func keyed(partition int32, from string, n int) (records []*kgo.Record) {
	for i := range n {
		records = append(records, &kgo.Record{Partition: partition, Key: fmt.Appendf(nil, "%s-%d", from, i), Value: []byte("good")})
	}
	return records
}

// Case 45: a record that raises, kills or hangs the process each time is known by
// its exact place and by how often it was tried. What is before it is committed,
// nothing behind it, and the other partition goes on all the while. Its batch
// has good records on both sides of it.
func TestCase45_OneRecordFailsForEver(t *testing.T) {
	t.Parallel()
	for _, poison := range poisons {
		t.Run(poison.name, func(t *testing.T) {
			t.Parallel()
			b := newBrokerWith(t, 2)
			records := keyed(0, "before", 5)
			records = append(records, &kgo.Record{Key: []byte("bad"), Value: []byte("poison")})
			b.put(append(records, keyed(0, "behind", 4)...)...)
			p := b.runCase([]string{"FLOW_BATCH_TIMEOUT=1s"}, nil, sdkStreamlet(t, "", poisoned(poison.handler)))
			url := statusOf(p)
			p.await(`WRN convicted +(a|the same) record ` + poison.said + `.*: case\.in/0@5 \(inlet in\)`)
			for n := range 5 {
				b.put(keyed(1, fmt.Sprintf("other-%d", n), 20)...)
				eventually(t, "the other partition goes on", func() bool { return b.committed(1) == int64(20*(n+1)) })
			}
			if poison.name == "raises" { // the others wait for ten times what a start takes here
				p.await(`WRN convicted +the same record failed 4 times: case\.in/0@5 \(inlet in\)`)
			}
			if at := b.committed(0); at != 5 {
				t.Errorf("committed at %d, want 5: all before the record and nothing of it", at)
			}
			b.suspectAt(url, 5)
			b.wrote(records[:5], 100)
			p.stopsWell()
		})
	}
}

// suspectAt looks at the row of partition 0 in the status.
func (b *caseBroker) suspectAt(url string, offset int64) {
	b.t.Helper()
	var status struct {
		Partitions []struct {
			Partition int32  `json:"partition"`
			Standing  string `json:"standing"`
			Suspect   int64  `json:"suspect"`
			Tries     int    `json:"tries"`
			LastError string `json:"last_error"`
		} `json:"partitions"`
	}
	_, body := get(b.t, url+"/status.json")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		b.t.Fatal(err)
	}
	for _, row := range status.Partitions {
		if row.Partition == 0 && (row.Standing != "convicted" || row.Suspect != offset || row.Tries < 1 || row.LastError == "") {
			b.t.Errorf("the status has %+v", row)
		}
		if row.Partition == 1 && row.Standing != "" {
			b.t.Errorf("the status charges the other partition: %+v", row)
		}
	}
}

// wrote checks that the outlet has these records of partition 0, however often, and
// no others of it, and so many different ones of partition 1.
func (b *caseBroker) wrote(want []*kgo.Record, others int) {
	b.t.Helper()
	var first []string
	seen := map[string]bool{}
	for _, r := range b.out() {
		key := string(r.Key)
		if seen[key] {
			continue
		}
		seen[key] = true
		if len(key) < 5 || key[:5] != "other" {
			first = append(first, key)
		}
	}
	var due []string
	for _, r := range want {
		due = append(due, string(r.Key))
	}
	slices.Sort(first) // keys spread over the outlet's partitions
	slices.Sort(due)
	if !slices.Equal(first, due) || len(seen)-len(first) != others {
		b.t.Errorf("written are %v and %d of the other partition, want %v and %d", first, len(seen)-len(first), due, others)
	}
}

// A save lets what failed be tried as if for the first time, whatever its wait
// still was: saved broken it counts anew, saved whole it goes on from there.
func TestPoisonGoesOnAtASave(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "", poisoned(`raise ValueError("poison")`))
	records := append(keyed(0, "before", 5), &kgo.Record{Key: []byte("bad"), Value: []byte("poison")})
	s.b.put(append(records, keyed(0, "behind", 4)...)...)
	p := s.run()
	p.await(`case\.in/0@5 \(inlet in\); it is tried again in (4|8)s`)
	at := p.count()
	s.save("", poisoned(`raise KeyError("still")`))
	p.awaitFrom(at, `WRN convicted +a record failed: case\.in/0@5 \(inlet in\); it is tried again in 500ms`)
	s.save("", emits)
	s.b.awaitCommit(10)
	s.ends(p)
}

// A record that kills the process under --watch: the crash waits for the save, and
// the saved text goes on from the last commit. Each record is written, the one that
// killed too, and SIGTERM ends it well.
func TestCase45_ARecordThatKillsGoesOnAtASave(t *testing.T) {
	t.Parallel()
	s := newSaved(t, "", poisoned(`__import__("signal").raise_signal(11)`))
	records := append(keyed(0, "before", 5), &kgo.Record{Key: []byte("bad"), Value: []byte("poison")})
	records = append(records, keyed(0, "behind", 4)...)
	s.b.put(records...)
	p := s.run()
	p.await(`waiting +for the next save`)
	if at := s.b.committed(0); at != 0 {
		t.Errorf("committed at %d of a batch that was not answered, want 0", at)
	}
	s.save("", emits)
	s.b.awaitCommit(10)
	s.b.wrote(records, 0)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.endsWith(0)
}

// heldPoison ends the process each time until it has done so for the tries before
// hold; then it waits for the mend, so that a test can do something just there, and
// is good from then on.
type heldPoison struct {
	t      *testing.T
	folder string
	gate   *os.File // what the held ones read from: a byte each lets them go on
}

func newHeldPoison(t *testing.T) *heldPoison {
	t.Helper()
	h := &heldPoison{t: t, folder: t.TempDir()}
	gate := filepath.Join(h.folder, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.gate, err = os.OpenFile(gate, os.O_RDWR, 0); err != nil { // so that no opening of it waits
		t.Fatal(err)
	}
	t.Cleanup(func() { h.gate.Close() })
	return h
}

func (h *heldPoison) command(hold int) []string {
	return sdkStreamlet(h.t, "import os, signal", fmt.Sprintf(`
        folder = %q
        if record.value == b"poison" and not os.path.exists(os.path.join(folder, "mended")):
            with open(os.path.join(folder, "tries"), "ab") as file:
                file.write(b".")
            if os.path.getsize(os.path.join(folder, "tries")) < %d:
                signal.raise_signal(signal.SIGSEGV)
            with open(os.path.join(folder, "next"), "w") as file:
                file.write(str(os.getpid()))
            os.rename(os.path.join(folder, "next"), os.path.join(folder, "held"))
            with open(os.path.join(folder, "gate"), "rb", buffering=0) as gate:
                gate.read(1)
        return self.out.emit(record)
`, h.folder, hold))
}

// held waits for the one that is held, and is its pid.
func (h *heldPoison) held() (pid int) {
	h.t.Helper()
	eventually(h.t, "a process is held", func() bool {
		text, err := os.ReadFile(filepath.Join(h.folder, "held"))
		if err == nil {
			pid, err = strconv.Atoi(string(text))
		}
		return err == nil
	})
	return pid
}

// mend makes the record good, for those that are held, too.
func (h *heldPoison) mend() {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.folder, "mended"), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.gate.Write(make([]byte, 64)); err != nil { // one for each that may be held
		h.t.Fatal(err)
	}
}

// At each step of a trial (alone, with one record, tried again) the process or the
// supervisor may be killed or asked to stop, and the group may get another member.
// Nothing is skipped by it, and all goes on when the record is good.
func TestCase45_ATrialIsDisturbed(t *testing.T) {
	t.Parallel()
	for hold, step := range map[int]string{2: "on trial", 3: "one record", 4: "tried again"} {
		for _, disturbance := range []string{"the process is killed", "the supervisor is killed", "a stop", "another member"} {
			t.Run(step+"/"+disturbance, func(t *testing.T) {
				t.Parallel()
				b := newBrokerWith(t, 2)
				records := append(keyed(0, "before", 5), &kgo.Record{Key: []byte("bad"), Value: []byte("poison")})
				records = append(records, keyed(0, "behind", 4)...)
				b.put(append(records, keyed(1, "other", 20)...)...)
				poison := newHeldPoison(t)
				command := poison.command(hold)
				p := b.runCase(nil, nil, command)
				pid := poison.held()
				if at := b.committed(0); at > 5 {
					t.Fatalf("committed at %d, behind the record that fails", at)
				}
				switch disturbance {
				case "the process is killed":
					poison.mend()
					signalTo(t, pid, syscall.SIGKILL)
				case "the supervisor is killed":
					_ = p.cmd.Process.Kill()
					<-p.exited
					poison.mend()
					p = b.runCase(nil, nil, command)
				case "a stop":
					signalTo(t, p.cmd.Process.Pid, syscall.SIGTERM)
					p.await(`stopping +SIGTERM`)
					poison.mend()
					p.endsWith(0)
					p = b.runCase(nil, nil, command)
				case "another member":
					other := *b
					other.dir = t.TempDir()
					second := other.runCase(nil, nil, command)
					second.await(`ready +status`)
					poison.mend()
					defer second.stopsWell()
				}
				b.awaitCommit(10)
				eventually(t, "the other partition is committed", func() bool { return b.committed(1) == 20 })
				b.wrote(records, 20)
				p.stopsWell()
			})
		}
	}
}

func signalTo(t *testing.T, pid int, number syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, number); err != nil {
		t.Fatal(err)
	}
}
