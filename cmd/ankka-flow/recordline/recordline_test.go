package recordline

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ankka-flow/delivery/record"
)

func TestR8_LineRoundTripsByteForByte(t *testing.T) {
	bytesOrNull := rapid.OneOf(
		rapid.Just[[]byte](nil),
		rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.SampledFrom([][]byte{[]byte(`{"a":1}`), []byte(`"x"`), []byte(`17`), []byte("null"), []byte("a\u2028<&>b\x00")}),
	)
	rapid.Check(t, func(t *rapid.T) {
		want := &Line{Topic: "t.é", Partition: rapid.Int32().Draw(t, "partition")}
		want.Offset = rapid.Int64().Draw(t, "offset")
		want.Timestamp = rapid.Int64().Draw(t, "timestamp")
		want.Key = bytesOrNull.Draw(t, "key")
		want.Value = bytesOrNull.Draw(t, "value")
		want.Headers = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record.Header {
			return record.Header{Name: rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "name"), Value: bytesOrNull.Draw(t, "header")}
		}), 0, 4).Draw(t, "headers")
		line := Append(nil, want, false)
		got, err := Parse(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if len(want.Headers) == 0 {
			got.Headers = want.Headers
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n got %#v\nwant %#v", line, got, want)
		}
	})
}

func TestParseTakesWhatAPersonTypes(t *testing.T) {
	for line, want := range map[string]Line{
		`{"key":"c9","value":{"total": 7}}`: {Partition: -1, Record: record.Record{Timestamp: record.Now, Key: []byte("c9"), Value: []byte(`{"total":7}`)}},
		`{"value":[1, 2]}`:                  {Partition: -1, Record: record.Record{Timestamp: record.Now, Value: []byte(`[1,2]`)}},
		`{"value":1.50}`:                    {Partition: -1, Record: record.Record{Timestamp: record.Now, Value: []byte(`1.50`)}},
		`{"key":"k","value":null}`:          {Partition: -1, Record: record.Record{Timestamp: record.Now, Key: []byte("k")}},
		`{"value":"\ud83d\ude00\\ud83d"}`:   {Partition: -1, Record: record.Record{Timestamp: record.Now, Value: []byte("😀\\ud83d")}},
		" {\"value\": \"\xef\xbf\xbd\"}\r":  {Partition: -1, Record: record.Record{Timestamp: record.Now, Value: []byte("\ufffd")}},
		`{"value":"","timestamp":5}`:        {Partition: -1, Record: record.Record{Timestamp: 5, Value: []byte{}}},
	} {
		got, err := Parse([]byte(line))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %v\n got %#v\nwant %#v", line, err, got, want)
		}
	}
}

func TestParseNamesEveryProblem(t *testing.T) {
	for line, words := range map[string][]string{
		`hello`:                                  {"not a JSON object"},
		`null`:                                   {"not a JSON object", "null"},
		`{"value":"a"`:                           {"not a JSON object", "ends too early"},
		`{"value":"a"} x`:                        {"not a JSON object", "at byte 15"},
		"{\"value\":\"a\xff\"}":                  {"not UTF-8", "byte 12", "value_base64"},
		`{"value":"\ud83d"}`:                     {"value:", `\ud83d`, "base64"},
		`{"key":"\uDC00\ud83d","value":"a"}`:     {"key:", `\uDC00`},
		`{"value":"\ud83d\u0041"}`:               {"value:", `\ud83d`},
		`{"value":"a","headers":[["\udfff",1]]}`: {"its name", `\udfff`},
		`{"value":"a","value":"b","key":null,"key":null}`: {`"value" twice`, `"key" twice`},
		`{"value_base64":7}`:                              {"value_base64", "not text"},
		`{"topic":7,"value":"a"}`:                         {"topic", "not text"},
		`[1]`:                                             {"not a JSON object"},
		`{}`:                                              {"neither"},
		`{"vaule":"x","partition":"p"}`:                   {`"vaule"`, "partition"},
		`{"value":"a","value_base64":"YQ=="}`:             {"both value and value_base64"},
		`{"value_base64":"*"}`:                            {"value_base64", "not base64"},
		`{"value":"a","headers":[["n"]]}`:                 {"headers", "number 1"},
		`{"value":"a","headers":[[null,"v"]]}`:            {"its name is null"},
		`{"value":"a","headers":[["n",7]]}`:               {"its value is not text"},
		`{"value":"a","partition":3000000000}`:            {"partition", "32 bits"},
		`{"value":"a","timestamp":1.5}`:                   {"timestamp"},
	} {
		_, err := Parse([]byte(line))
		if err == nil {
			t.Errorf("%s: accepted", line)
			continue
		}
		for _, word := range []string{"json:", "strconv", "RawMessage"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not for people", line, err)
			}
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", line, err, word)
			}
		}
	}
}

func TestNestPutsOnlyObjectsAndArraysInline(t *testing.T) {
	for value, want := range map[string]string{
		`{ "a": 1 }`: `"value":{"a":1}`,
		`[1]`:        `"value":[1]`,
		`"x"`:        `"value":"\"x\""`,
		`7`:          `"value":"7"`,
		`{broken`:    `"value":"{broken"`,
	} {
		line := string(Append(nil, &Line{Record: record.Record{Value: []byte(value)}}, true))
		if !strings.Contains(line, want) {
			t.Errorf("%s: %s does not contain %s", value, line, want)
		}
	}
}
