package names

import (
	"strings"
	"testing"
)

func TestTopicNames(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "A.b_c-9": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, strings.Repeat("x", 250): false,
		"a/b": false, "a b": false, "é": false, "a\x00": false, "a:1": false, "\xff": false,
	} {
		if err := CheckTopic(name); (err == nil) != good {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestGroupNames(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "a b/ü": true, strings.Repeat("x", 1000): true,
		"": false, strings.Repeat("x", 1001): false, "a\nb": false, "\xff": false,
	} {
		if err := CheckGroup(name); (err == nil) != good {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}
