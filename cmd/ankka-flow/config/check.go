package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"ankka-flow/delivery/kafka/names"
	"ankka-flow/wire"
)

// checkAddress judges a broker's address.
func checkAddress(text string) string {
	host, port, err := net.SplitHostPort(text)
	if strings.Contains(text, "@") {
		return "a broker's address is host:port, such as kafka:9092, without a user or a password (sasl.username and sasl.password of connection-config say those)"
	}
	if n, e := strconv.Atoi(port); err != nil || host == "" || e != nil || n < 1 || n > 65535 {
		if strings.Contains(text, "://") {
			return "a broker's address is host:port, such as kafka:9092, without a protocol in front (security.protocol says that)"
		}
		return "a broker's address is host:port, such as kafka:9092"
	}
	return ""
}

// checkName judges a pipeline's or streamlet's name: it becomes part of topics and
// groups.
func checkName(text string) string {
	if problem := checkTopic(text); problem != "" {
		return "it becomes part of topics' names: " + problem
	}
	return ""
}

// checkTopic is Kafka's rule for topics.
func checkTopic(text string) string { return unquoted(names.CheckTopic(text)) }

// checkGroup is that for groups.
func checkGroup(text string) string { return unquoted(names.CheckGroup(text)) }

// unquoted is a problem of a name without the name in front, which may be a secret
// in the wrong place.
func unquoted(err error) string {
	if err == nil {
		return ""
	}
	const verb = " is not a "
	_, rest, found := strings.Cut(err.Error(), verb)
	if !found {
		return "it is not a name"
	}
	return "it" + verb + rest
}

func checkPort(text string) string {
	if n, err := strconv.Atoi(text); err != nil || n < 0 || n > 65535 {
		return "it is a port, from 0 (none) to 65535"
	}
	return ""
}

// judge says what is wrong with a text of a key, without quoting it; "" is good.
func (k *Key) judge(text string) string {
	if text == "" && !k.Empty && k.Kind != Bool {
		return "it is empty"
	}
	switch k.Kind {
	case Bool:
		if text != "true" && text != "false" {
			return "it is true or false"
		}
	case Int:
		if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < k.Least {
			return fmt.Sprintf("it is a whole number, at least %d", k.Least)
		}
	case Duration:
		if d, ok := parseDuration(text); !ok || d < time.Duration(k.Least)*time.Millisecond {
			return fmt.Sprintf("it is a duration of at least %v, such as 500ms, 30s or 5m", time.Duration(k.Least)*time.Millisecond)
		}
	case Size:
		if n, ok := parseSize(text); !ok || n < k.Least {
			return fmt.Sprintf("it is a size of at least %s, such as 65536, 64KiB or 1 MiB", plural(k.Least, "byte"))
		}
	case Choice:
		if !contains(k.Choices, k.normal(text)) {
			if k.Path() == "" && k.Meaning != "" { // one of Java's
				return fmt.Sprintf("it is %s here (%s)", choices(k.Choices), k.Meaning)
			}
			return "it is " + choices(k.Choices)
		}
	}
	if k.Check != nil {
		return k.Check(text)
	}
	return ""
}

// normal is a text in the spelling of the choice that it means: case does not count.
func (k *Key) normal(text string) string {
	if k.Kind == Choice {
		for _, c := range k.Choices {
			if strings.EqualFold(c, text) {
				return c
			}
		}
	}
	return text
}

// parseDuration takes Go's durations, as 1m30s, and HOCON's, as "5 minutes", but
// no bare number other than 0: its unit would be a guess.
func parseDuration(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, true
	}
	if strings.Trim(text, "0123456789.+-eE") == "" {
		return 0, false
	}
	v, err := wire.ParseValue(wire.TypeDuration, text)
	if err != nil {
		return 0, false
	}
	switch ms := v.(type) {
	case int64:
		return time.Duration(ms) * time.Millisecond, ms < 9_000_000_000 // within what Go can count
	case float64:
		return time.Duration(ms * float64(time.Millisecond)), ms < 9_000_000_000 // within what Go can count
	}
	return 0, false
}

// parseSize is bytes.
func parseSize(text string) (int64, bool) {
	v, err := wire.ParseValue(wire.TypeMemorySize, text)
	n, ok := v.(int64)
	return n, err == nil && ok && n <= 1<<40
}

func choices(of []string) string {
	if len(of) == 1 {
		return of[0]
	}
	return strings.Join(of[:len(of)-1], ", ") + " or " + of[len(of)-1]
}

func contains(list []string, text string) bool {
	for _, l := range list {
		if l == text {
			return true
		}
	}
	return false
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
