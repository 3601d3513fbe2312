package config

import (
	"strings"
	"testing"
)

// Whatever is in a file, it is read or refused, with every problem at a line of it;
// and what is read prints as what reads the same.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		everything, "flow:\n  pipeline: a\n", "a: &a {b: *a}\n", "<<: {pipeline: x}\n", "{\"pipeline\": \"\\ud83d\\ude00\"}", "? a\n: b\n", "a: |\n  b\n c",
		"inlets.in.topic: x\ninlets: {in: }\n", "config: {a: {file: /dev/null}}", "pipeline: ${A:-b}$$$", "- - -\n", "a: !!str\n", "&a : *a", "a: [*b, &b c]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") || strings.Contains(text, "location") || strings.Contains(text, "ssl.") || len(text) > 4096 {
			return // it might name a file of this machine
		}
		parsed := parseFile("flow.yaml", []byte(text))
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 2
		for _, p := range parsed.problems {
			if p.line < 1 || p.line > lines {
				t.Errorf("line %d of %d: %v", p.line, lines, p)
			}
		}
		l := &loader{path: "flow.yaml", env: map[string]string{}, values: map[string]value{}, used: map[string]bool{}, unknown: map[string]bool{}}
		for _, e := range parsed.entries {
			l.takeEntry(e)
		}
		l.checkPorts()
		l.addDefaults()
		s := l.resolve()
		if len(l.problems) > 0 || len(parsed.problems) > 0 {
			return
		}
		again := parseFile("flow.yaml", []byte(s.Print()))
		if len(again.problems) > 0 {
			t.Errorf("%v\n%s", again.problems, s.Print())
		}
	})
}
