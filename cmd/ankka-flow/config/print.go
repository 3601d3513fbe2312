package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Print is the configuration as a file that Load reads again, with each value's
// origin as a comment. Secrets are ***, and so are parameters whose value a
// variable or a file brought.
func (s *Settings) Print() string {
	l := s.loaded
	var b strings.Builder
	b.WriteString("# What ankka-flow is configured to do, and where each value is from. Secrets are shown as ***.\n")
	if l.path != "" {
		fmt.Fprintf(&b, "# File: %s\n", l.path)
	}
	open := "" // the section that is open
	for _, row := range l.rows() {
		open = openSection(&b, open, row.section)
		indent := strings.Repeat("  ", depth(row.section))
		if row.variable { // it cannot stand in a file
			fmt.Fprintf(&b, "# %s: %s  # %s\n", row.name, row.text, row.origin)
			continue
		}
		fmt.Fprintf(&b, "%s%s: %s  # %s\n", indent, row.name, row.text, row.origin)
	}
	return b.String()
}

// printed is one line of Print.
type printed struct {
	section, name, text string
	origin              origin
	variable            bool
}

func depth(section string) int {
	if section == "" {
		return 0
	}
	return 1 + strings.Count(section, ".")
}

// openSection writes the headings that lead from one section to another.
func openSection(b *strings.Builder, from, to string) string {
	if from == to {
		return to
	}
	have, want := strings.Split(from, "."), strings.Split(to, ".")
	if to == "" {
		return to
	}
	same := 0
	for same < len(have) && same < len(want) && have[same] == want[same] {
		same++
	}
	for i := same; i < len(want); i++ {
		fmt.Fprintf(b, "%s%s:\n", strings.Repeat("  ", i), want[i])
	}
	return to
}

// rows are the values in the order of the table: what is at the top first, so that
// no section is opened twice.
func (l *loader) rows() []printed {
	var rows []printed
	for i := range Keys {
		k := &Keys[i]
		if v, ok := l.values[k.id()]; ok && k.Section == "" && k.Flag != PrintConfig {
			name := k.Name
			if name == "" {
				name = v.origin.name
			}
			if name == "" { // a default
				name = k.id()
			}
			rows = append(rows, printed{"", name, l.printable(k, k.id(), v), v.origin, k.Name == ""})
		}
	}
	for _, section := range []string{"batch", "config", "errors", "topics"} {
		for _, path := range l.paths() {
			if name, ok := strings.CutPrefix(path, section+"."); ok {
				rows = append(rows, printed{section, name, l.printable(keyOfPath(path), path, l.values[path]), l.values[path].origin, false})
			}
		}
	}
	for _, one := range scopes {
		rows = append(rows, l.javaRows(one.section)...)
	}
	for _, port := range l.ports() {
		for _, path := range l.paths() {
			name, ok := strings.CutPrefix(path, port+".")
			if in, _ := javaSection(path); ok && in == 0 {
				rows = append(rows, printed{port, name, l.printable(keyOfPath(path), path, l.values[path]), l.values[path].origin, false})
			}
		}
		for _, one := range scopes {
			rows = append(rows, l.javaRows(port+"."+one.section)...)
		}
	}
	return rows
}

func (l *loader) javaRows(section string) []printed {
	var rows []printed
	for _, path := range l.paths() {
		if name, ok := strings.CutPrefix(path, section+"."); ok {
			k, _ := keyOf(path)
			rows = append(rows, printed{section, name, l.printable(k, path, l.values[path]), l.values[path].origin, false})
		}
	}
	return rows
}

// printable is a value as YAML.
func (l *loader) printable(k *Key, path string, v value) string {
	switch {
	case k == nil || k.Secret || secretName(path) || strings.HasPrefix(path, "config.") && v.brought(), strings.Contains(v.text, "PRIVATE KEY-----"):
		return hiddenYAML
	case k.Kind == Bool || k.Kind == Int:
		return v.text
	case k.Kind == Lines:
		var items []string
		for _, item := range strings.Split(v.text, "\n") {
			items = append(items, quoted(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return quoted(withoutLogins(v.text))
}

// hiddenYAML is *** as YAML: bare, it would be an alias.
const hiddenYAML = `"` + hiddenText + `"`

// quoted is a text as YAML, with the $ doubled that would begin ${...}.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ReplaceAll(text, "$", "$$")); err != nil {
		return hiddenYAML // no text fails to encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}
