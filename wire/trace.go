package wire

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"
)

// TraceLine appends one frame as a JSON line, newline included, for a trace:
//
//	{"ms":1234,"dir":"in","bytes":57,"frame":["emit",7,"out",[[{"bytes":3},{"bytes":20},[["trace",{"bytes":2}]],null]]]}
//
// ms is milliseconds on whatever clock the caller has, dir the caller's word for
// the direction, bytes the body's size. Keys, values and header values stand as
// their sizes, header names as text (or {"base64"}), and so do the texts of a
// start's config, which may be secrets: {"text_bytes"}. A frame that is no
// message's is shown as far as it can be read: "malformed" says why it ends.
func TraceLine(dst []byte, ms int64, dir string, body []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"ms":`...), ms, 10)
	dst = appendJSONText(append(dst, `,"dir":`...), dir)
	dst = strconv.AppendInt(append(dst, `,"bytes":`...), int64(len(body)), 10)
	dst = append(dst, `,"frame":`...)
	t := tracer{cursor: cursor{b: body, place: "a value"}}
	if len(body) > 0 && typeName(body[0]) == "array" {
		peek := t.cursor
		peek.arrayLen("array")
		if kind := string(peek.strBytes()); peek.err == nil {
			t.kind = kind
		}
	}
	dst = t.value(dst)
	err := t.err
	if err == nil && t.off < len(body) {
		t.fail(CodeTrailingBytes, "COUNT", strconv.Itoa(len(body)-t.off))
		err = t.err
	}
	if err != nil {
		dst = appendJSONText(append(dst, `,"malformed":`...), err.Error())
	}
	return append(dst, '}', '\n')
}

// tracer writes msgpack as JSON. path holds the places in the arrays and maps
// around the value at hand, from the message's array inward.
type tracer struct {
	cursor
	path   [MaxDepth + 1]int
	config bool // inside a start's config
}

func (t *tracer) value(dst []byte) []byte {
	b := t.code()
	switch typeName(b) {
	case "nil":
		t.off++
		return append(dst, "null"...)
	case "bool":
		return strconv.AppendBool(dst, t.boolOrNil())
	case "int":
		return strconv.AppendInt(dst, t.integer(), 10)
	case "float":
		f := t.number()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return appendJSONText(dst, strconv.FormatFloat(f, 'g', -1, 64))
		}
		return strconv.AppendFloat(dst, f, 'g', -1, 64)
	case "str":
		return t.text(dst)
	case "bin":
		return t.bytes(dst)
	case "array":
		n := t.arrayLen("array")
		return append(t.many(append(dst, '['), n, false), ']')
	case "map":
		n := t.mapLen()
		return append(t.many(append(dst, '{'), n, true), '}')
	}
	t.wrong("a msgpack value")
	return append(dst, "null"...)
}

func (t *tracer) text(dst []byte) []byte {
	s := t.str()
	if t.config {
		dst = strconv.AppendInt(append(dst, `{"text_bytes":`...), int64(len(s)), 10)
		return append(dst, '}')
	}
	return appendJSONText(dst, s)
}

func (t *tracer) bytes(dst []byte) []byte {
	p := t.bin("bin")
	if !t.headerName() {
		dst = strconv.AppendInt(append(dst, `{"bytes":`...), int64(len(p)), 10)
		return append(dst, '}')
	}
	if utf8.Valid(p) {
		return appendJSONText(dst, string(p))
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `{"base64":"`...), p)
	return append(dst, `"}`...)
}

// headerName says whether the value at hand is a header's name: message[records]
// [i][headers][j][0].
func (t *tracer) headerName() bool {
	switch {
	case t.depth != 5 || t.path[5] != 0:
		return false
	case t.kind == KindBatch:
		return t.path[1] == 4 && t.path[3] == 4
	}
	return t.kind == KindEmit && t.path[1] == 3 && t.path[3] == 2
}

func (t *tracer) many(dst []byte, n int, isMap bool) []byte {
	if t.depth++; t.depth > MaxDepth {
		t.fail(CodeDepth)
	}
	for i := 0; i < n && t.err == nil; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		t.path[min(t.depth, MaxDepth)] = i
		outer := t.config
		if isMap {
			key := t.str()
			dst = append(appendJSONText(dst, key), ':')
			t.config = outer || t.kind == KindStart && t.depth == 2 && key == "config"
		}
		dst = t.value(dst)
		t.config = outer
	}
	t.depth--
	return dst
}
