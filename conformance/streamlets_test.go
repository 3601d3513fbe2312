package conformance

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestReferenceStreamletsPassEveryCase: each line of streamlets/table, as `make conformance`
// runs them.
func TestReferenceStreamletsPassEveryCase(t *testing.T) {
	text, err := os.ReadFile("streamlets/table")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("..") // the commands are for the project's folder
	streamlets := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 {
			t.Fatalf("a line of the table without three fields: %q", line)
		}
		streamlets++
		t.Run(fields[0], func(t *testing.T) {
			if out, err := exec.Command("bash", "-c", fields[1]).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", fields[1], err, out)
			}
			asked := 0
			s := &Suite{Command: strings.Fields(fields[2]), Patience: time.Minute}
			err := s.Run(t.Context(), func(r Result) {
				asked++
				if r.Verdict != Passed {
					t.Error(resultText(r))
				}
			})
			if err != nil || asked != len(Cases()) {
				t.Errorf("%d cases asked, error %v", asked, err)
			}
		})
	}
	if streamlets < 2 {
		t.Errorf("%d streamlets: does the test still read the table?", streamlets)
	}
}
