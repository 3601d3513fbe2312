package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"ankka-flow/delivery/record"
)

// PROTOCOL.md is normative, so nothing on it may differ from the code and the
// golden files: these tests read the page.

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the page's fenced blocks of that language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```").FindAllStringSubmatch(page(t), -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

var traceLine = regexp.MustCompile(`^([SP])> (?:(\d\d_\w+) )?(\[.*\])$`)

// TestProtocolPageTraces: every message of every trace is one that its sender may
// send, is its golden file's where it names one, and has the bytes shown under it.
func TestProtocolPageTraces(t *testing.T) {
	checked, golden := 0, 0
	for _, block := range blocks(t, "") {
		lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
		for i := 0; i < len(lines); i++ {
			if strings.HasPrefix(lines[i], "-- ") {
				continue
			}
			m := traceLine.FindStringSubmatch(lines[i])
			if m == nil {
				t.Errorf("a line of a trace that is no message: %s", lines[i])
				continue
			}
			shown := ""
			for i+1 < len(lines) && regexp.MustCompile(`^[ 0-9a-f]+$`).MatchString(lines[i+1]) {
				i++
				shown += strings.ReplaceAll(lines[i], " ", "")
			}
			checked++
			if m[2] != "" {
				golden++
			}
			checkTraceLine(t, m[1], m[2], m[3], shown)
		}
	}
	if checked < 45 || golden < 20 {
		t.Errorf("only %d messages, %d of them golden: does the test still read the traces?", checked, golden)
	}
}

func checkTraceLine(t *testing.T, side, name, value, shown string) {
	t.Helper()
	from := map[string]string{"S": fromSupervisor, "P": fromProcess}[side]
	frame := hex.EncodeToString(frameOf(t, golden{value: value, wide: strings.HasPrefix(value, `["batch"`)}))
	if shown != "" && shown != frame {
		t.Errorf("%s\nthe page shows %s\nits frame is    %s", value, shown, frame)
	}
	if name != "" {
		file := readGolden(t, "testdata/golden/"+name+".json")
		if file.From != from || compact(t, file.Value) != value || file.Hex != frame {
			t.Errorf("%s on the page is not the golden file: %s", name, value)
		}
	}
	b, _ := hex.DecodeString(frame)
	parseGolden(t, from, b[4:])
}

// TestProtocolPageStartsInstanceZero: instances count from 0 and there is one
// process, so a trace with another number teaches something else.
func TestProtocolPageStartsInstanceZero(t *testing.T) {
	starts := 0
	for _, m := range regexp.MustCompile(`(?m)^S> .*\["start",\{.*"instance":(\d+)`).FindAllStringSubmatch(page(t), -1) {
		starts++
		if m[1] != "0" {
			t.Errorf("a start on the page has instance %s: %s", m[1], m[0])
		}
	}
	if starts < 4 {
		t.Errorf("only %d starts on the page: does the test still read the traces?", starts)
	}
}

// TestProtocolPageSections: every section that the page speaks of is there.
func TestProtocolPageSections(t *testing.T) {
	text := page(t)
	for _, m := range regexp.MustCompile(`[Ss]ection (\d+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, "\n## "+m[1]+". ") {
			t.Errorf("the page speaks of %s, which it does not have", m[0])
		}
	}
	for i, m := range regexp.MustCompile(`\[([^]]+)\]\(#(\d+)-`).FindAllStringSubmatch(text, -1) {
		if heading := fmt.Sprintf("\n## %s. %s\n", m[2], m[1]); m[2] != fmt.Sprint(i+1) || !strings.Contains(text, heading) {
			t.Errorf("the table of contents has %s at place %d; the page has no heading %q there", m[1], i+1, heading)
		}
	}
}

// TestProtocolPageViolations: the page's table is the code's, row by row.
func TestProtocolPageViolations(t *testing.T) {
	_, section, _ := strings.Cut(page(t), "## 9. Violations\n")
	section, _, _ = strings.Cut(section, "\n## 10.")
	var got []string
	for _, r := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(section, -1) {
		got = append(got, r[1]+": "+r[3])
	}
	var want []string
	for _, tmpl := range templates {
		want = append(want, string(tmpl.Code)+": "+tmpl.Text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the page has\n%s\nthe code has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, example := range []string{`emit of batch 7: records[0].key must be bin or nil, got str`, `ack: id must be given, got nothing: the message ends before it`} {
		if !strings.Contains(page(t), "`"+example+"`") {
			t.Errorf("the page lacks the example %s", example)
		}
		found := false
		for _, v := range violations(t) {
			found = found || v.text == example
		}
		if !found {
			t.Errorf("the code does not say %s", example)
		}
	}
}

func TestProtocolPageNamesEveryKindAndLimit(t *testing.T) {
	text := page(t)
	for _, kind := range append(processKinds[:], supervisorKinds[:]...) {
		if !strings.Contains(text, "**`[\""+kind+`"`) {
			t.Errorf("no paragraph describes %s", kind)
		}
	}
	for _, limit := range []int{MaxFrame, MaxRecord, MaxInteger, MaxHeld, MaxText, MaxSeries} {
		if !strings.Contains(text, "| "+thousands(limit)) {
			t.Errorf("the table of limits lacks %s", thousands(limit))
		}
	}
	for _, words := range []string{"version " + Version, fmt.Sprintf("| nesting of arrays and maps | %d,", MaxDepth), fmt.Sprintf("| int, 1 or more, below 2^31 | %d |", DefaultMaxInFlight)} {
		if !strings.Contains(text, words) {
			t.Errorf("the page lacks %q", words)
		}
	}
}

// thousands is n with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// TestProtocolPageProgram runs the page's process on real pipes.
func TestProtocolPageProgram(t *testing.T) {
	programs := blocks(t, "python")
	if len(programs) != 1 {
		t.Fatalf("%d programs on the page", len(programs))
	}
	path := filepath.Join(t.TempDir(), "upper.py")
	if err := os.WriteFile(path, []byte(programs[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	example, err := filepath.Abs("testdata/example")
	if err != nil {
		t.Fatal(err)
	}
	in := record.Record{Offset: 5, Timestamp: 6, Key: bin("k"), Value: bin("text"), Headers: []record.Header{{Name: bin("\xff"), Value: nil}}}
	var input []byte
	for _, m := range []Message{Discover{Protocol: Version}, Start{Conversation: 1}, Batch{ID: 1, Inlet: "in", Records: []record.Record{in, {}}},
		Revoke{ID: 1}, Stop{Mode: Abandon}} {
		if input, err = Append(input, m); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("python3", "-u", path)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+example, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	checkProgramsAnswers(t, out)
}

func checkProgramsAnswers(t *testing.T, out []byte) {
	t.Helper()
	var got []Message
	for r := NewReader(bytes.NewReader(out)); ; {
		body, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, parseGolden(t, fromProcess, body))
	}
	if len(got) != 4 {
		t.Fatalf("%d answers: %v", len(got), got)
	}
	spec := got[0].(Spec)
	if problems := spec.Descriptor.Validate(); problems != nil || spec.Capabilities != (Capabilities{MaxInFlight: 1}) {
		t.Errorf("spec %+v: %v", spec, problems)
	}
	want := []Message{Emit{ID: 1, Outlet: "out", Records: EncodeRecords([]record.Record{
		rec(bin("k"), bin("TEXT"), record.Now, record.Header{Name: bin("\xff")}), rec(nil, nil, record.Now)})}, Ack{ID: 1}, Stopped{}}
	if !reflect.DeepEqual(got[1:], want) {
		t.Errorf("got %+v\nwant %+v", got[1:], want)
	}
}
