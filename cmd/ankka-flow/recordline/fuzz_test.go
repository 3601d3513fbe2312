package recordline

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// FuzzParse: a line is refused with a short reason on one line, or it is JSON to
// others as well, means there what it means here, and what it says is written
// as what reads the same.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`{"key":"c9","value":{"total": 7}}`, `{"value":null,"headers":[["a",null],[{"base64":"/w=="},"b"]]}`, `{"value_base64":"/w==","timestamp":5}`,
		`{"key":"k","value":"\ud83d\ude00","partition":2,"offset":7,"topic":"t"}`, `{"value":"\ud800"}`, `{"value":1,"value":2}`, `[1]`, ` `, "{\"value\":\"\xff\"}", `{"value":"a","headers":null}`,
		`{"value":"a","headers":[["a"]]}`, `{"value":"a","headers":[[{"base64":null},""]]}`, `{"key_base64":"!"}`, `{"value":1e400,"timestamp":1e3}`, `null`, "",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		l, err := Parse(in)
		if err != nil {
			if text := err.Error(); text == "" || bytes.ContainsAny([]byte(text), "\n") && !bytes.Contains(in, []byte("\n")) {
				t.Fatalf("a reason that is none for a log: %q", text)
			}
			return
		}
		checkAgainstJSON(t, in, l)
		for _, nest := range []bool{false, true} {
			line := Append(nil, l, nest)
			if !json.Valid(line) || !utf8.Valid(line) || bytes.ContainsRune(line, '\n') {
				t.Fatalf("not one line of JSON: %q", line)
			}
			again, err := Parse(line)
			if err == nil && len(l.Headers)+len(again.Headers) == 0 {
				again.Headers = l.Headers // null or an empty list
			}
			if err != nil || !nest && !reflect.DeepEqual(again, l) || nest && !bytes.Equal(again.Key, l.Key) {
				t.Fatalf("%q: %v\n got %+v\nwant %+v", line, err, again, l)
			}
		}
	})
}

// checkAgainstJSON holds the texts of a line against what encoding/json has there.
func checkAgainstJSON(t *testing.T, in []byte, l *Line) {
	t.Helper()
	var theirs struct{ Key, Value any }
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber() // of any size
	if err := d.Decode(&theirs); err != nil {
		t.Fatalf("we took what is no JSON: %v", err)
	}
	if s, ok := theirs.Key.(string); ok && string(l.Key) != s {
		t.Fatalf("key %q, encoding/json has %q", l.Key, s)
	}
	if s, ok := theirs.Value.(string); ok && string(l.Value) != s {
		t.Fatalf("value %q, encoding/json has %q", l.Value, s)
	}
}
