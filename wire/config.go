package wire

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// ResolveConfig is every declared parameter's value, as Start.Config carries it:
// what is given, otherwise its default. Its second result is every problem at
// once, a sentence each, sorted by key and for whoever wrote the configuration:
// a key that no parameter has, with the nearest that one has; a value that is not
// of its parameter's type; a parameter without default that is not given.
func ResolveConfig(params []Parameter, given map[string]string) (map[string]any, []string) {
	var p problems
	config := make(map[string]any, len(params))
	declared := byKey(params)
	for _, key := range unionOf(declared, nil) {
		param := declared[key]
		text, ok := given[key]
		if !ok {
			text, ok = param.Default, param.Default != ""
		}
		if !ok {
			p.add("parameter %q (%s) has no default and is not given; set it in the configuration, or with --param %s=VALUE",
				key, param.typeOf(), key)
			continue
		}
		value, err := ParseValue(param.typeOf(), text)
		if err != nil {
			p.add("parameter %q: %v", key, err)
			continue
		}
		config[key] = value
	}
	for _, key := range unionOf(given, nil) {
		if _, ok := declared[key]; !ok {
			p.add("the streamlet declares no parameter %q%s", key, didYouMean(key, unionOf(declared, nil)))
		}
	}
	if len(p) > 0 {
		return nil, p
	}
	return config, nil
}

// ParseValue is text as a value of a parameter's type: string; int64 for
// INTEGER, MEMORY_SIZE (bytes) and DURATION (milliseconds; a float64 where they
// are no whole number); float64; bool. Integers stay within MaxInteger, for they
// go over the wire. White space around it is ignored, but in a STRING.
func ParseValue(typ, text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch typ {
	case TypeString, "":
		return text, nil
	case TypeInteger:
		n, err := strconv.ParseInt(trimmed, 10, 64)
		if err != nil || n > MaxInteger || n < -MaxInteger {
			return nil, fmt.Errorf("%q is no integer within 2^53 - 1 of 0", text)
		}
		return n, nil
	case TypeDouble:
		f, err := strconv.ParseFloat(trimmed, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(trimmed, "_xXpP") {
			return nil, fmt.Errorf("%q is no finite number", text)
		}
		return f, nil
	case TypeBoolean:
		if trimmed != "true" && trimmed != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return trimmed == "true", nil
	case TypeDuration:
		return parseDuration(text)
	case TypeMemorySize:
		return parseMemorySize(text)
	}
	return nil, fmt.Errorf("has the unknown type %q", typ)
}

// parseDuration reads a HOCON duration, as "500ms", "5 seconds", "1.5m"; a bare
// number is milliseconds. The result is milliseconds.
func parseDuration(text string) (any, error) {
	wrong := fmt.Errorf("%q is no duration; write a number and one of ns, us, ms, s, m, h, d, as 500ms or \"5 seconds\"", text)
	number, unit, ok := cutNumber(text)
	nanos, known := durationUnits[unit]
	if !ok || !known {
		return nil, wrong
	}
	// Whole numbers are multiplied as such: a double would be off beyond 2^53 ns.
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if nanos >= 1e6 && n <= MaxInteger/(nanos/1e6) && n >= -MaxInteger/(nanos/1e6) {
			return n * (nanos / 1e6), nil
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	ms := f * float64(nanos) / 1e6
	if err != nil || math.Abs(ms) > MaxInteger {
		return nil, wrong
	}
	if ms == math.Trunc(ms) {
		return int64(ms), nil
	}
	return ms, nil
}

// parseMemorySize reads a HOCON size, as "1 MiB", "512k", "10MB"; a bare number
// is bytes. A fraction of a byte is dropped.
func parseMemorySize(text string) (any, error) {
	wrong := fmt.Errorf("%q is no size; write a number and a unit, as 64KiB (1,024 each) or 10MB (1,000,000 each)", text)
	number, unit, ok := cutNumber(text)
	factor, known := sizeUnits()[unit]
	if !ok || !known {
		return nil, wrong
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && float64(n) <= MaxInteger/factor {
		return n * int64(factor), nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if size := f * factor; err == nil && size >= 0 && size <= MaxInteger {
		return int64(size), nil
	}
	return nil, wrong
}

// cutNumber splits a number, with sign, fraction and exponent, from its unit.
func cutNumber(text string) (number, unit string, ok bool) {
	s := strings.TrimSpace(text)
	i := 0
	digits := func() int {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i - from
	}
	sign := func() {
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
	}
	sign()
	n := digits()
	if i < len(s) && s[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return "", "", false
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		mantissa := i
		i++
		sign()
		if digits() == 0 {
			i = mantissa // a unit that begins with e
		}
	}
	return s[:i], strings.TrimSpace(s[i:]), true
}

// durationUnits are HOCON's, in nanoseconds.
var durationUnits = map[string]int64{
	"ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
	"us": 1e3, "micro": 1e3, "micros": 1e3, "microsecond": 1e3, "microseconds": 1e3,
	"": 1e6, "ms": 1e6, "milli": 1e6, "millis": 1e6, "millisecond": 1e6, "milliseconds": 1e6,
	"s": 1e9, "second": 1e9, "seconds": 1e9,
	"m": 60e9, "minute": 60e9, "minutes": 60e9,
	"h": 3600e9, "hour": 3600e9, "hours": 3600e9,
	"d": 86400e9, "day": 86400e9, "days": 86400e9,
}

// sizeUnits are HOCON's, in bytes: K, k, Ki, KiB, kibibytes are 1,024; kB and
// kilobytes are 1,000; and so on to exa.
func sizeUnits() map[string]float64 {
	units := map[string]float64{"": 1, "B": 1, "b": 1, "byte": 1, "bytes": 1}
	binary, decimal := 1.0, 1.0
	for _, p := range [...][4]string{
		{"K", "k", "kilo", "kibi"}, {"M", "m", "mega", "mebi"}, {"G", "g", "giga", "gibi"},
		{"T", "t", "tera", "tebi"}, {"P", "p", "peta", "pebi"}, {"E", "e", "exa", "exbi"},
	} {
		binary, decimal = binary*1024, decimal*1000
		for _, u := range []string{p[0], p[1], p[0] + "i", p[0] + "iB", p[3] + "byte", p[3] + "bytes"} {
			units[u] = binary
		}
		short := p[0] + "B"
		if p[0] == "K" {
			short = "kB"
		}
		for _, u := range []string{short, p[2] + "byte", p[2] + "bytes"} {
			units[u] = decimal
		}
	}
	return units
}

// didYouMean is "; did you mean ...?" with the nearest of known, where one is
// near, and otherwise a list of what is known.
func didYouMean(key string, known []string) string {
	best, distance := "", len(key)/3+2
	for _, k := range known {
		if d := editDistance(key, k); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	if len(known) == 0 {
		return "; it has none"
	}
	sort.Strings(known)
	return "; known are: " + strings.Join(known, ", ")
}

// editDistance is Levenshtein's. Keys are short.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
