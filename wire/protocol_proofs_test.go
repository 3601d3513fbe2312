package wire

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A rule of the page is an entry of a list, a message's paragraph, or a row of the
// tables of who may send what, of what the supervisor does, and of the limits.
var (
	ruleLine   = regexp.MustCompile(`^(- |\d+\. |\*\*)`)
	ruleRow    = regexp.MustCompile(`^\| [a-z]|^\| ` + "`")
	headerRow  = regexp.MustCompile(`^\| (message|what|supervisor|state|info|element|capabilities) \|`)
	proofLine  = regexp.MustCompile(`^(\d+) \| (.+?) \| ((?:[\w/.-]+:[\w.-]+ ?)+)$`)
	noRules    = map[string]bool{"9": true, "12": true, "13": true} // they have tests of their own
	rowsAreTo  = map[string]bool{"4": true, "8": true}
	stateTable = "| state | begins with |" // it defines words
)

// rules are the beginnings of the page's rules by section.
func rules(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, section := range strings.Split(page(t), "\n## ")[1:] {
		number, _, _ := strings.Cut(section, ".")
		if noRules[number] {
			continue
		}
		fenced, defines := false, false
		for _, line := range strings.Split(section, "\n")[1:] { // behind the heading
			fenced = fenced != strings.HasPrefix(line, "```")
			defines = line == stateTable || defines && strings.HasPrefix(line, "|")
			row := rowsAreTo[number] && ruleRow.MatchString(line) && !headerRow.MatchString(line) && !defines
			if !fenced && (row || ruleLine.MatchString(line)) {
				out[number] = append(out[number], line)
			}
		}
	}
	return out
}

// TestEveryRuleOfThePageIsProven: testdata/proofs.txt names tests for each of
// them, and those are there.
func TestEveryRuleOfThePageIsProven(t *testing.T) {
	text, err := os.ReadFile("testdata/proofs.txt")
	if err != nil {
		t.Fatal(err)
	}
	unproven, count := rules(t), 0
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := proofLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("a line that is no proof: %s", line)
			continue
		}
		count++
		var rest []string
		for _, rule := range unproven[m[1]] {
			if !strings.HasPrefix(rule, m[2]) {
				rest = append(rest, rule)
			}
		}
		if len(unproven[m[1]])-len(rest) != 1 {
			t.Errorf("section %s has %d rules left that begin with %q", m[1], len(unproven[m[1]])-len(rest), m[2])
		}
		unproven[m[1]] = rest
		checkProofs(t, strings.Fields(m[3]))
	}
	for section, left := range unproven {
		for _, rule := range left {
			t.Errorf("nothing in proofs.txt proves section %s: %.80s", section, rule)
		}
	}
	if count < 70 {
		t.Errorf("only %d proofs were read", count)
	}
}

// checkProofs looks for each test: a Go or Python function, or a case's name in
// quotes.
func checkProofs(t *testing.T, tests []string) {
	t.Helper()
	for _, test := range tests {
		path, name, _ := strings.Cut(test, ":")
		text, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Error(err)
			continue
		}
		name = regexp.QuoteMeta(name)
		if !regexp.MustCompile(`(func|def|const) ` + name + `\b|"` + name).Match(text) {
			t.Errorf("%s has no %s", path, name)
		}
	}
}
