package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"ankka-flow/delivery/record"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/golden anew; commit only a difference you can explain")

const (
	fromSupervisor = "supervisor"
	fromProcess    = "process"
)

// goldenFile is the shape of a file of testdata/golden, which README.md there
// describes.
type goldenFile struct {
	Name     string          `json:"name"`
	From     string          `json:"from"`
	Sentence string          `json:"sentence"`
	Value    json.RawMessage `json:"value"`
	Exact    bool            `json:"exact"`
	Hex      string          `json:"hex"`
}

// golden is one entry of the table: the value as written by hand, and the
// message that it is, also by hand.
type golden struct {
	name, from, sentence, value string
	message                     Message
	// ours: Append(message) gives these bytes. Not so where the value holds what
	// a message of this version does not say, or spells out a default.
	ours bool
	// wide: the records stand behind an array32 header, as BatchEncoder writes it.
	wide bool
}

func bin(s string) []byte { return []byte(s) }

// rec is a record of an emit, without offset.
func rec(key, value []byte, ts int64, headers ...record.Header) record.Record {
	return record.Record{Timestamp: ts, Key: key, Value: value, Headers: headers}
}

func TestGolden(t *testing.T) {
	if *rewrite {
		rewriteGolden(t)
	}
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) != len(goldens) {
		t.Fatalf("testdata/golden has %d files, the table %d entries (%v); run go test ./wire -run TestGolden -rewrite", len(files), len(goldens), err)
	}
	for i, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			file := readGolden(t, goldenPath(i))
			frame, err := hex.DecodeString(file.Hex)
			if err != nil {
				t.Fatal(err)
			}
			if file.Name != g.name || file.From != g.from || file.Sentence != g.sentence || compact(t, file.Value) != compact(t, []byte(g.value)) {
				t.Errorf("the file's words differ from the table's:\n%+v\n%+v", file, g)
			}
			if want := frameOf(t, g); !bytes.Equal(frame, want) {
				t.Errorf("hex is not the value's frame\n got %x\nwant %x", frame, want)
			}
			if plain := encodeJSON(t, []byte(g.value), false); file.Exact != bytes.Equal(plain, frame[4:]) {
				t.Errorf("exact is %v, which is wrong", file.Exact)
			}
			got := parseGolden(t, g.from, frame[4:])
			if !reflect.DeepEqual(got, g.message) {
				t.Errorf("parsed\n got %#v\nwant %#v", got, g.message)
			}
			again, err := Append([]byte("prefix"), g.message)
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Equal(again[6:], frame); got != g.ours {
				t.Errorf("Append gives these bytes: %v, want %v\n got %x\nfile %x", got, g.ours, again[6:], frame)
			}
			if back := parseGolden(t, g.from, again[10:]); !reflect.DeepEqual(back, g.message) {
				t.Errorf("Append and parse\n got %#v\nwant %#v", back, g.message)
			}
		})
	}
}

// TestGoldenHasEveryKind fails when a message is added without a golden frame.
func TestGoldenHasEveryKind(t *testing.T) {
	missing := map[string]bool{}
	for _, k := range supervisorKinds {
		missing[fromSupervisor+" "+k] = true
	}
	for _, k := range processKinds {
		missing[fromProcess+" "+k] = true
	}
	for _, g := range goldens {
		delete(missing, g.from+" "+g.message.Kind())
	}
	if len(missing) > 0 {
		t.Errorf("no golden frame for %v", missing)
	}
}

func parseGolden(t *testing.T, from string, body []byte) Message {
	t.Helper()
	parse := ParseFromProcess
	if from == fromSupervisor {
		parse = ParseFromSupervisor
	}
	m, err := parse(body)
	if err != nil {
		t.Fatalf("parsing: %v", err)
	}
	if e, ok := m.(Emit); ok {
		// RawRecords are compared as what they hold.
		e.Records = EncodeRecords(e.Records.Append(nil))
		return e
	}
	return m
}

func goldenPath(i int) string {
	return fmt.Sprintf("testdata/golden/%02d_%s.json", i+1, goldens[i].name)
}

func readGolden(t testing.TB, path string) goldenFile {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file goldenFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file
}

func rewriteGolden(t *testing.T) {
	old, _ := filepath.Glob("testdata/golden/*.json")
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for i, g := range goldens {
		frame := frameOf(t, g)
		exact := bytes.Equal(frame[4:], encodeJSON(t, []byte(g.value), false))
		text := fmt.Sprintf("{\n  \"name\": %q,\n  \"from\": %q,\n  \"sentence\": %s,\n  \"value\": %s,\n  \"exact\": %v,\n  \"hex\": %q\n}\n",
			g.name, g.from, appendJSONText(nil, g.sentence), compact(t, []byte(g.value)), exact, hex.EncodeToString(frame))
		if err := os.WriteFile(goldenPath(i), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}

func frameOf(t *testing.T, g golden) []byte {
	t.Helper()
	body := encodeJSON(t, []byte(g.value), g.wide)
	n := len(body)
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

// encodeJSON encodes a golden value with msgpack's own encoder, keys in the order
// they are written: the oracle for our bytes.
func encodeJSON(t *testing.T, value []byte, wide bool) []byte {
	t.Helper()
	var out bytes.Buffer
	e := goldenEncoder{msgpack.NewEncoder(&out), &out, wide}
	e.UseCompactInts(true)
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if err := e.encode(parseOrdered(t, dec), 0, 0); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return out.Bytes()
}

type member struct {
	key   string
	value any
}

// parseOrdered reads JSON with objects as []member.
func parseOrdered(t *testing.T, dec *json.Decoder) any {
	t.Helper()
	token, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch token {
	case json.Delim('{'):
		members := []member{}
		for dec.More() {
			key, _ := dec.Token()
			members = append(members, member{key.(string), parseOrdered(t, dec)})
		}
		_, _ = dec.Token()
		return members
	case json.Delim('['):
		all := []any{}
		for dec.More() {
			all = append(all, parseOrdered(t, dec))
		}
		_, _ = dec.Token()
		return all
	}
	return token
}

type goldenEncoder struct {
	*msgpack.Encoder
	out  *bytes.Buffer
	wide bool
}

// encode writes v, which is element i of an array at that depth.
func (e goldenEncoder) encode(v any, depth, i int) error {
	switch v := v.(type) {
	case []member:
		if len(v) == 1 && v[0].key == "hex" {
			b, err := hex.DecodeString(v[0].value.(string))
			if err != nil {
				return err
			}
			return e.EncodeBytes(b)
		}
		if err := e.EncodeMapLen(len(v)); err != nil {
			return err
		}
		for _, m := range v {
			if err := e.EncodeString(m.key); err != nil {
				return err
			}
			if err := e.encode(m.value, depth+1, 0); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if e.wide && depth == 1 && i == 4 {
			e.out.Write([]byte{0xdd, 0, 0, byte(len(v) >> 8), byte(len(v))})
		} else if err := e.EncodeArrayLen(len(v)); err != nil {
			return err
		}
		for j, m := range v {
			if err := e.encode(m, depth+1, j); err != nil {
				return err
			}
		}
		return nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, err := v.Float64()
			if err != nil {
				return err
			}
			return e.EncodeFloat64(f)
		}
		n, err := v.Int64()
		if err != nil {
			return err
		}
		return e.EncodeInt(n)
	case nil:
		return e.EncodeNil()
	case bool:
		return e.EncodeBool(v)
	}
	return e.EncodeString(v.(string))
}

// TestGoldenNames: numbered without a gap, as they read.
func TestGoldenNames(t *testing.T) {
	files, _ := filepath.Glob("testdata/golden/*.json")
	sort.Strings(files)
	for i, path := range files {
		if want := goldenPath(i); path != want {
			t.Errorf("file %d is %s, want %s", i+1, path, want)
		}
	}
}
