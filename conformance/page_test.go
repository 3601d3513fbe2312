package conformance

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// TestThePageListsWhatIsAsked: every row quotes the protocol's page word for word, in the section
// that it names, and every case stands in a row.
func TestThePageListsWhatIsAsked(t *testing.T) {
	text, err := os.ReadFile("../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	protocol := readPage(t, "../wire/PROTOCOL.md")
	known, asked := map[string]bool{}, map[string]bool{}
	for _, c := range Cases() {
		known[c.Name] = true
	}
	rows := regexp.MustCompile("(?m)^\\| (\\d+) \\| (.+) \\| (`[a-z].*`) \\|$").FindAllStringSubmatch(string(text), -1)
	for _, row := range rows {
		_, section, _ := strings.Cut(protocol, " ## "+row[1]+". ")
		section, _, _ = strings.Cut(section, " ## ")
		if !strings.Contains(section, row[2]) {
			t.Errorf("section %s of PROTOCOL.md does not say: %s", row[1], row[2])
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[3], -1) {
			if !known[m[1]] {
				t.Errorf("there is no case %s", m[1])
			}
			asked[m[1]] = true
		}
	}
	for name := range known {
		if !asked[name] {
			t.Errorf("docs/conformance.md says of no sentence that %s asks it", name)
		}
	}
	if len(rows) < 35 {
		t.Errorf("%d rows: does the test still read the table?", len(rows))
	}
}

// TestEveryCaseNamesASection: of the protocol's page, by its number and its heading.
func TestEveryCaseNamesASection(t *testing.T) {
	protocol, seen := readPage(t, "../wire/PROTOCOL.md"), map[string]bool{}
	for _, c := range Cases() {
		if !strings.Contains(protocol, " ## "+c.Section+" ") {
			t.Errorf("%s: PROTOCOL.md has no section %q", c.Name, c.Section)
		}
		if c.Sentence == "" || seen[c.Name] || !regexp.MustCompile(`^(discovery|run|stdio|errors)\.[a-z0-9-]+$`).MatchString(c.Name) {
			t.Errorf("%q: its name, or its sentence %q", c.Name, c.Sentence)
		}
		seen[c.Name] = true
	}
}

// TestTheReferencePageHasEveryWord: what the cases send as a word is described.
func TestTheReferencePageHasEveryWord(t *testing.T) {
	page := readPage(t, "REFERENCE.md")
	for _, word := range []string{
		"echo", "fan", "skip", "fail", "exit", "multiply", "unkeyed", "header-echo", "make", "rogue-outlet", "late", "busy", "print", "print-fd", "print-err", "run", "read",
	} {
		if !strings.Contains(page, "| `"+word+"` |") {
			t.Errorf("REFERENCE.md does not describe %q", word)
		}
	}
	for _, said := range []string{referenceName, referenceSchema, discoveryVariable + "=error", modeIsBroken, noDescriptorToday} {
		if !strings.Contains(page, "`"+said+"`") {
			t.Errorf("REFERENCE.md does not say %q", said)
		}
	}
}
