package config

import (
	"encoding/json"
	"regexp"
	"testing"
	"unicode/utf8"
)

var plainKey = regexp.MustCompile(`^[a-z][a-z-]*$`)

// FuzzJSON: in a JSON file every text is what other JSON readers have there, at
// the same path.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"flow":{"pipeline":"a","config":{"x":"\ud83d\ude00"}}}`, `{"a":{"b":"c\n\t\"\\\/\u00e9"},"d":["e","f"]}`, `{"a":null,"b":1e3,"c":true,"d":{}}`, `{"a":"#x","b":"- y","c":": z","d":"*e","f":"&g"}`,
		"{\"a\":\"\u2028\",\n\t\"b\": \"'\"}", `{"a":"yes","b":"0x10","c":"~","d":"","e":"<<"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var tree any
		if len(text) > 2048 || !utf8.ValidString(text) || json.Unmarshal([]byte(text), &tree) != nil {
			return
		}
		want := map[string]string{}
		if !flatten(want, "", tree) {
			return
		}
		parsed := parseFile("flow.json", []byte(text))
		if len(parsed.problems) > 0 {
			return
		}
		for _, e := range parsed.entries {
			if theirs, ok := want[e.path]; ok && (len(e.texts) != 1 || e.texts[0] != theirs) {
				t.Errorf("%s is %q, encoding/json has %q", e.path, e.texts, theirs)
			}
		}
	})
}

// flatten puts the texts under their paths; false where a key might be read as
// more than a name, or comes twice in encoding/json's eyes.
func flatten(into map[string]string, path string, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if !plainKey.MatchString(key) || !flatten(into, path+"."+key, value) {
				return false
			}
		}
	case string:
		into[path[min(1, len(path)):]] = v
	}
	return true
}
