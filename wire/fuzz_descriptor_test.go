package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"unicode/utf8"
)

// FuzzDescriptor: a file is refused with problems that can be read, or it is a
// descriptor that is valid, has one canonical form, says in it what other JSON
// readers read there, and crosses the wire unchanged.
func FuzzDescriptor(f *testing.F) {
	paths, err := filepath.Glob("testdata/descriptors/*.json")
	if err != nil || len(paths) == 0 {
		f.Fatal("no descriptors", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{`{"sdk":{"name":"a"},"sdk":{}}`, `{"streamlet":{"inlets":null}}`, "\xef\xbb\xbf{}", `[[[[`, `{"a":"\ud800"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDescriptorJSON(text)
		if err != nil {
			var p *ProblemsError
			if !errors.As(err, &p) || len(p.Problems) == 0 {
				t.Fatalf("no problems are named: %v", err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("we took what is not JSON")
		}
		checkCanonical(t, d)
	})
}

func checkCanonical(t *testing.T, d *Descriptor) {
	t.Helper()
	if p := d.Validate(); p != nil {
		t.Fatalf("it was taken with %v", p)
	}
	canonical := d.CanonicalJSON()
	again, err := ParseDescriptorJSON(canonical)
	if err != nil || !bytes.Equal(again.CanonicalJSON(), canonical) || Differences(d, again) != nil || again.SDK != d.SDK {
		t.Fatalf("%v: from\n%s\nbecame %+v", err, canonical, again)
	}
	var theirs any
	if err := json.Unmarshal(canonical, &theirs); err != nil || !utf8.Valid(canonical) {
		t.Fatalf("%v\n%s", err, canonical)
	}
	if ours := any(again.values()); !reflect.DeepEqual(theirs, ours) {
		t.Fatalf("encoding/json reads %v, we %v", theirs, ours)
	}
	frame, err := Append(nil, Spec{Descriptor: *d, Capabilities: DefaultCapabilities()})
	if err != nil {
		return // a file may be larger than a frame
	}
	m, err := ParseFromProcess(frame[4:])
	if err != nil || !bytes.Equal(canonicalOf(m), canonical) {
		t.Fatalf("over the wire: %v, %+v", err, m)
	}
}

func canonicalOf(m Message) []byte {
	s, _ := m.(Spec)
	return s.Descriptor.CanonicalJSON()
}

// valueForms are the page's words for the texts of numbers, as patterns.
var valueForms = map[string]*regexp.Regexp{
	TypeInteger:    regexp.MustCompile(`^\s*[+-]?\d+\s*$`),
	TypeDouble:     regexp.MustCompile(`^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$`),
	TypeBoolean:    regexp.MustCompile(`^\s*(true|false)\s*$`),
	TypeDuration:   regexp.MustCompile(`^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[\s\v\p{Z}\x{85}]*[a-z]*\s*$`),
	TypeMemorySize: regexp.MustCompile(`^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[\s\v\p{Z}\x{85}]*[a-zA-Z]*\s*$`),
}

// FuzzParseValue: a parameter's text is refused or becomes a value that start can
// say, and only texts of the form on the page are taken.
func FuzzParseValue(f *testing.F) {
	for _, text := range []string{"1", "-9007199254740991", "9007199254740992", "1.5m", "5 seconds", "64KiB", "0.5 B", "-1.5e3", "true", "NaN", "0x1p4", "1_000", "1e400", "१", "-0", ".5", "1 EiB", " 7\u00a0"} {
		f.Add(text)
	}
	types := []string{TypeString, TypeInteger, TypeDouble, TypeBoolean, TypeDuration, TypeMemorySize}
	f.Fuzz(func(t *testing.T, text string) {
		for _, typ := range types {
			v, err := ParseValue(typ, text)
			if err != nil {
				continue
			}
			if form := valueForms[typ]; form != nil && !form.MatchString(trimSpace(text)) {
				t.Errorf("%q was taken as %s: %v", text, typ, v)
			}
			frame, err := Append(nil, Start{Config: map[string]any{"p": v}})
			if err != nil {
				t.Fatalf("%q as %s cannot be said: %v", text, typ, err)
			}
			m, err := ParseFromSupervisor(frame[4:])
			s, _ := m.(Start)
			if err != nil || typ != TypeString && !reflect.DeepEqual(s.Config["p"], v) {
				t.Fatalf("%q as %s is %v and came as %v: %v", text, typ, v, s.Config["p"], err)
			}
			if n, ok := v.(int64); typ == TypeMemorySize && (!ok || n < 0) {
				t.Errorf("%q as a size is %v", text, v)
			}
		}
	})
}

// trimSpace is text without the white space around it, of which Unicode has more
// than a pattern's \s.
func trimSpace(text string) string { return string(bytes.TrimSpace([]byte(text))) }
