package recordline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// fieldsOf takes the members of a JSON object apart. Without fields there is one
// problem, with them each that is given twice is one: of two values, encoding/json
// would silently take the last.
func fieldsOf(line []byte) (fields map[string]json.RawMessage, problems []error) {
	if at := invalidUTF8(line); at >= 0 {
		return nil, []error{fmt.Errorf("is not UTF-8 from byte %d on; give bytes that are no text as key_base64, value_base64 or {\"base64\": ...}", at+1)}
	}
	if err := syntax(line); err != nil {
		return nil, []error{err}
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, []error{fmt.Errorf("is not a JSON object, but %s", kindOf(line))}
	}
	fields = map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err = errors.Join(err, d.Decode(&value)); err != nil {
			return nil, []error{errors.New("is not a JSON object")}
		}
		key := fmt.Sprint(name) // always text here
		if _, twice := fields[key]; twice {
			problems = append(problems, fmt.Errorf("has the field %q twice", key))
		}
		fields[key] = value
	}
	return fields, problems
}

// invalidUTF8 is where text stops being UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

// syntax says why a line is no JSON, with the byte where that shows.
func syntax(line []byte) error {
	var whole json.RawMessage
	err := json.Unmarshal(line, &whole)
	var wrong *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return errors.New("is not a JSON object")
	case wrong.Error() == "unexpected end of JSON input" || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is not a JSON object: it ends too early")
	}
	return fmt.Errorf("is not a JSON object: %v, at byte %d", wrong, wrong.Offset)
}

// kindOf names what JSON text is, by how it begins.
func kindOf(line []byte) string {
	switch bytes.TrimLeft(line, " \t\r\n")[0] {
	case '[':
		return "a list"
	case '"':
		return "text"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

// errNotText says that there is JSON of another kind.
var errNotText = errors.New("is not text")

// text decodes a JSON string. One with half of a surrogate pair names no
// character; encoding/json would put another in its place.
func text(raw json.RawMessage) ([]byte, error) {
	if raw[0] != '"' {
		return nil, errNotText
	}
	if half := loneSurrogate(string(raw)); half != "" {
		return nil, fmt.Errorf("has %s, which is half of a character; give bytes that are no text as base64", half)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, errNotText
	}
	return []byte(s), nil
}

// loneSurrogate finds an escape of one half of a pair without the other, in a
// JSON string whose syntax is good.
func loneSurrogate(raw string) string {
	const escape = len(`\ud800`)
	for {
		at := strings.IndexByte(raw, '\\')
		if at < 0 {
			return ""
		}
		raw = raw[at:]
		if raw[1] != 'u' {
			raw = raw[2:]
			continue
		}
		switch surrogate(raw) {
		case highHalf:
			if surrogate(raw[escape:]) != lowHalf {
				return raw[:escape]
			}
			raw = raw[2*escape:]
		case lowHalf:
			return raw[:escape]
		default:
			raw = raw[escape:]
		}
	}
}

const (
	noHalf = iota
	highHalf
	lowHalf
)

// surrogate says what half of a pair the text begins with an escape of.
func surrogate(raw string) int {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' || raw[2] != 'd' && raw[2] != 'D' {
		return noHalf
	}
	switch raw[3] {
	case '8', '9', 'a', 'b', 'A', 'B':
		return highHalf
	case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
		return lowHalf
	}
	return noHalf
}
