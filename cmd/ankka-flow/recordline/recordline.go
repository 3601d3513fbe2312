package recordline

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ankka-flow/delivery/record"
)

// Line is a record with the place that it was read from.
type Line struct {
	Topic     string
	Partition int32
	record.Record
}

// Append appends the line to dst, without a newline. Text is text; bytes that
// are not UTF-8 go as key_base64, value_base64 or {"base64": ...}; null is
// null. nest puts a value that is a JSON object or array inline.
func Append(dst []byte, l *Line, nest bool) []byte {
	dst = append(dst, `{"topic":`...)
	dst = appendText(dst, []byte(l.Topic))
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(l.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, l.Offset, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, l.Timestamp, 10)
	dst = appendBytes(dst, "key", l.Key, false)
	dst = appendBytes(dst, "value", l.Value, nest)
	dst = append(dst, `,"headers":[`...)
	for i, h := range l.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = appendEither(dst, h.Name)
		dst = append(dst, ',')
		dst = appendEither(dst, h.Value)
		dst = append(dst, ']')
	}
	return append(dst, "]}"...)
}

func appendBytes(dst []byte, name string, b []byte, nest bool) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	switch {
	case b == nil:
		return append(dst, `":null`...)
	case nest && nestable(b):
		dst = append(dst, `":`...)
		var compact bytes.Buffer
		_ = json.Compact(&compact, b) // nestable has checked it
		return append(dst, compact.Bytes()...)
	case !utf8.Valid(b):
		dst = append(dst, `_base64":`...)
		return appendBase64(dst, b)
	}
	dst = append(dst, `":`...)
	return appendText(dst, b)
}

// nestable: only objects and arrays. A value whose bytes are a JSON string or
// number would read like text that says the same.
func nestable(b []byte) bool {
	trimmed := bytes.TrimLeft(b, " \t\r\n")
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(b)
}

func appendEither(dst, b []byte) []byte {
	switch {
	case b == nil:
		return append(dst, "null"...)
	case !utf8.Valid(b):
		dst = append(dst, `{"base64":`...)
		return append(appendBase64(dst, b), '}')
	}
	return appendText(dst, b)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendText(dst, b []byte) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(string(b)) // a string always encodes
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// Parse reads a line. Timestamp is record.Now where the line gives none. The
// errors are for the author of the line and say what is wrong in it.
func Parse(line []byte) (*Line, error) {
	fields, problems := fieldsOf(line)
	if fields == nil {
		return nil, problems[0]
	}
	l := &Line{Partition: -1}
	l.Timestamp = record.Now
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !known[name] {
			problems = append(problems, fmt.Errorf("has the field %q, which a record has not (key, value, headers, timestamp, partition, topic, offset)", name))
		}
	}
	number(fields, "partition", 32, func(n int64) { l.Partition = int32(n) }, &problems)
	number(fields, "offset", 64, func(n int64) { l.Offset = n }, &problems)
	number(fields, "timestamp", 64, func(n int64) { l.Timestamp = n }, &problems)
	if raw, ok := fields["topic"]; ok {
		topic, err := text(raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("topic: %w", err))
		}
		l.Topic = string(topic)
	}
	l.Key = bytesOf(fields, "key", &problems)
	l.Value = bytesOf(fields, "value", &problems)
	l.Headers = headersOf(fields, &problems)
	if len(problems) == 0 && !has(fields, "key") && !has(fields, "value") {
		problems = append(problems, errors.New(`has neither "key" nor "value"`))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return l, nil
}

var known = map[string]bool{
	"topic": true, "partition": true, "offset": true, "timestamp": true, "headers": true,
	"key": true, "key_base64": true, "value": true, "value_base64": true,
}

func has(fields map[string]json.RawMessage, name string) bool {
	_, plain := fields[name]
	_, encoded := fields[name+"_base64"]
	return plain || encoded
}

func number(fields map[string]json.RawMessage, name string, bits int, set func(int64), problems *[]error) {
	raw, ok := fields[name]
	if !ok {
		return
	}
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil {
		*problems = append(*problems, fmt.Errorf("%s: %s is not a whole number of %d bits", name, raw, bits))
		return
	}
	set(n)
}

// bytesOf reads a key or a value: text, null, base64, or JSON of another kind,
// which stands for its compact text.
func bytesOf(fields map[string]json.RawMessage, name string, problems *[]error) []byte {
	raw, plain := fields[name]
	encoded, base := fields[name+"_base64"]
	switch {
	case plain && base:
		*problems = append(*problems, fmt.Errorf("has both %s and %s_base64; give one", name, name))
	case base:
		b, err := fromBase64(encoded)
		if err != nil {
			*problems = append(*problems, fmt.Errorf("%s_base64: %w", name, err))
		}
		return b
	case !plain || string(raw) == "null":
		return nil
	case raw[0] == '"':
		b, err := text(raw)
		if err != nil {
			*problems = append(*problems, fmt.Errorf("%s: %w", name, err))
		}
		return b
	default:
		var compact bytes.Buffer
		_ = json.Compact(&compact, raw) // the line was valid JSON
		return compact.Bytes()
	}
	return nil
}

func fromBase64(raw json.RawMessage) ([]byte, error) {
	s, err := text(raw)
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(string(s))
	var at base64.CorruptInputError
	if errors.As(err, &at) {
		return nil, fmt.Errorf("is not base64 from character %d on", int64(at)+1)
	}
	return b, nil
}

func headersOf(fields map[string]json.RawMessage, problems *[]error) []record.Header {
	raw, ok := fields["headers"]
	if !ok {
		return nil
	}
	var pairs [][]json.RawMessage
	if err := json.Unmarshal(raw, &pairs); err != nil {
		*problems = append(*problems, errors.New(`headers: is not a list of ["name", value]`))
		return nil
	}
	headers := make([]record.Header, 0, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 2 {
			*problems = append(*problems, fmt.Errorf(`headers: number %d is not ["name", value]`, i+1))
			continue
		}
		name, nameErr := either(pair[0])
		value, valueErr := either(pair[1])
		if nameErr == nil && name == nil {
			nameErr = errors.New("is null")
		}
		if err := errors.Join(wrap("name", nameErr), wrap("value", valueErr)); err != nil {
			*problems = append(*problems, fmt.Errorf("headers: number %d: %w", i+1, err))
		}
		headers = append(headers, record.Header{Name: name, Value: value})
	}
	return headers
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("its %s %w", what, err)
}

// either reads text, null or {"base64": ...}.
func either(raw json.RawMessage) ([]byte, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		return text(raw)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || len(object) != 1 || object["base64"] == nil {
		return nil, errors.New(`is not text, null or {"base64": ...}`)
	}
	return fromBase64(object["base64"])
}
