package names

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxTopic is Kafka's limit for a topic's name in bytes: with a partition's
// number behind it, it must still be the name of a directory.
const maxTopic = 249

// maxGroup is the limit for a consumer group and for what is named after it.
// Kafka itself takes 32,767 bytes; such names break the tools that show them.
const maxGroup = 1000

// CheckTopic is Kafka's rule for topic names: 1 to 249 of the letters a to z
// and A to Z, digits, '.', '_' and '-', but not "." or "..". The error is a
// sentence that quotes the name, for the person who chose it.
func CheckTopic(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%q is not a topic's name (1 to %d characters, not . or ..)", name, maxTopic)
	case len(name) > maxTopic:
		return fmt.Errorf("%q is not a topic's name: it has %d bytes, the limit is %d", short(name), len(name), maxTopic)
	}
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
		if !ok {
			return fmt.Errorf("%q is not a topic's name: it has %q (letters, digits, . _ and - are allowed)", name, r)
		}
	}
	return nil
}

// CheckGroup refuses what cannot be a consumer group's name: nothing, more than
// 1,000 bytes, text that is not UTF-8, control characters. Errors as
// CheckTopic's.
func CheckGroup(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%q is not a group's name (1 to %d characters)", name, maxGroup)
	case len(name) > maxGroup:
		return fmt.Errorf("%q is not a group's name: it has %d bytes, the limit is %d", short(name), len(name), maxGroup)
	case !utf8.ValidString(name):
		return fmt.Errorf("%q is not a group's name: it is not UTF-8", name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%q is not a group's name: it has %q", name, r)
		}
	}
	return nil
}

// short is the beginning of a name that is too long to be shown.
func short(name string) string {
	const shown = 40
	if len(name) <= shown {
		return name
	}
	return name[:shown] + "..."
}
