package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Report writes results as they come: a line for each, and below one that failed what was
// expected, what came, the trace and what the process wrote to stderr.
type Report struct {
	// JSON: one object a line for each result, and nothing else.
	JSON bool

	out    io.Writer
	passed int
	failed int
}

// NewReport is one on out.
func NewReport(out io.Writer, asJSON bool) *Report { return &Report{JSON: asJSON, out: out} }

// Failed is how many cases failed.
func (r *Report) Failed() int { return r.failed }

// Add writes a result; its error is that of the writer.
func (r *Report) Add(res Result) error {
	switch res.Verdict {
	case Passed:
		r.passed++
	case Failed:
		r.failed++
	}
	if r.JSON {
		return r.json(res)
	}
	_, err := io.WriteString(r.out, resultText(res))
	return err
}

// Summary is the last line, without its newline.
func (r *Report) Summary() string { return fmt.Sprintf("%d passed, %d failed", r.passed, r.failed) }

func resultText(res Result) string {
	var b strings.Builder
	switch res.Verdict {
	case Passed:
		fmt.Fprintf(&b, "ok    %s\n", res.Case.Name)
		return b.String()
	case NotAsked:
		fmt.Fprintf(&b, "-     %s: not asked, %s\n", res.Case.Name, res.Why)
		return b.String()
	}
	fmt.Fprintf(&b, "FAIL  %s\n", res.Case.Name)
	fmt.Fprintf(&b, "      %s (PROTOCOL.md, %s)\n", res.Case.Sentence, res.Case.Section)
	fmt.Fprintf(&b, "      expected: %s\n", res.Failure.Expected)
	fmt.Fprintf(&b, "      came:     %s\n", res.Failure.Came)
	block(&b, "trace", res.Trace)
	block(&b, "stderr", res.Stderr)
	return b.String()
}

// block is lines under a heading, none where there are none.
func block(b *strings.Builder, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "      %s:\n", heading)
	for _, line := range lines {
		fmt.Fprintf(b, "        %s\n", line)
	}
}

func (r *Report) json(res Result) error {
	enc := json.NewEncoder(r.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Case     string   `json:"case"`
		Result   Verdict  `json:"result"`
		Sentence string   `json:"sentence"`
		Section  string   `json:"section"`
		MS       int64    `json:"ms"`
		Why      string   `json:"why,omitempty"`
		Failure  *Failure `json:"failure,omitempty"`
		Trace    []string `json:"trace,omitempty"`
		Stderr   []string `json:"stderr,omitempty"`
	}{res.Case.Name, res.Verdict, res.Case.Sentence, res.Case.Section, res.Duration.Milliseconds(), res.Why, res.Failure, res.Trace, res.Stderr})
}
