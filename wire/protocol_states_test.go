package wire

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

// states are the columns of the tables of section 4.
var states = []string{"new", "asked", "ready", "running", "finishing", "stopped"}

// permissions reads section 4's tables: for a kind, the states in which it may
// be sent.
func permissions(t *testing.T) map[string]map[string]bool {
	t.Helper()
	_, section, _ := strings.Cut(page(t), "## 4. Who may send what, when\n")
	section, _, _ = strings.Cut(section, "\n## 5.")
	allowed := map[string]map[string]bool{}
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != len(states)+3 {
			continue
		}
		for _, kind := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			allowed[kind[1]] = map[string]bool{}
			for i, s := range states {
				allowed[kind[1]][s] = strings.TrimSpace(cells[i+2]) != ""
			}
		}
	}
	for _, kind := range append(processKinds[:], supervisorKinds[:]...) {
		if allowed[kind] == nil {
			t.Errorf("section 4 does not say when %s may be sent", kind)
		}
	}
	return allowed
}

// process follows a trace as a process lives through it.
type process struct {
	state string
	owed  map[uint64]bool // id: void
	last  uint64
}

// TestProtocolPageTracesKeepTheRules: what section 12 shows is what sections 4
// and 7 allow.
func TestProtocolPageTracesKeepTheRules(t *testing.T) {
	allowed := permissions(t)
	for i, block := range blocks(t, "") {
		p := &process{state: "running", owed: map[uint64]bool{}}
		if i <= 1 { // the frame of section 1, and start-up
			p.state = []string{"running", "new"}[i]
			p.owed[1] = false
		}
		for _, line := range strings.Split(block, "\n") {
			if strings.Contains(line, "then a new process") || strings.Contains(line, "launches the new program") {
				p.state, p.owed = "new", map[uint64]bool{}
			}
			m := traceLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			frame := frameOf(t, golden{value: m[3], wide: strings.HasPrefix(m[3], `["batch"`)})
			msg := parseGolden(t, map[string]string{"S": fromSupervisor, "P": fromProcess}[m[1]], frame[4:])
			if !allowed[msg.Kind()][p.state] {
				t.Errorf("trace %d: %s is not allowed when %s: %s (%s)", i, msg.Kind(), p.state, line, hex.EncodeToString(frame))
			}
			if problem := p.step(msg); problem != "" {
				t.Errorf("trace %d: %s: %s", i, problem, line)
			}
		}
	}
}

func (p *process) step(m Message) (problem string) {
	switch m := m.(type) {
	case Discover:
		p.state = "asked"
	case Spec:
		p.state = "ready"
	case Start:
		p.state = "running"
	case Batch:
		if m.ID <= p.last {
			return "ids rise"
		}
		p.last = m.ID
		p.owed[m.ID] = false
	case Revoke:
		if _, owed := p.owed[m.ID]; owed {
			p.owed[m.ID] = true
		}
	case Stop:
		if p.state = "finishing"; m.Mode == Abandon {
			for id := range p.owed {
				p.owed[id] = true
			}
		}
	case Stopped:
		for _, void := range p.owed {
			if !void {
				return "stopped before an answer"
			}
		}
		p.state = "stopped"
	case Emit:
		return p.holds(m.ID, false)
	case Forward:
		return p.holds(m.ID, false)
	case Ack:
		return p.holds(m.ID, true)
	case Fail:
		return p.holds(m.ID, true)
	}
	return ""
}

// holds says what is wrong with speaking of a batch, and takes its answer.
func (p *process) holds(id uint64, answers bool) (problem string) {
	if _, owed := p.owed[id]; !owed {
		return "no such batch is owed an answer"
	}
	if answers {
		delete(p.owed, id)
	}
	return ""
}
