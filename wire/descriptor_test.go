package wire

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
)

func contractOf(schema string) Contract {
	return Contract{Format: "json", SchemaName: schema, Fingerprint: Fingerprint(schema)}
}

// declarations are what the files of testdata/descriptors declare; every SDK
// should write the same bytes for them.
var declarations = map[string]Descriptor{
	"minimal": {ProtocolVersion: "1.0", SDK: SDK{"fixture", "0.0.0"}, Streamlet: Streamlet{Name: "minimal",
		Inlets: []Port{{"in", contractOf("any.v1")}}}},
	"cart-router": cartRouter,
	"every-type": {ProtocolVersion: "1.0", SDK: SDK{"fixture", "0.0.0"}, Streamlet: Streamlet{Name: "every-type",
		Description: "Käyttää \"quotes\", \\, tabs\tand\nlines, <&>, \u2028, \x01 and 🛒.",
		Outlets:     []Port{{"out", contractOf("any.v1")}},
		Parameters: []Parameter{
			{Key: "text", Type: "", Default: "hello"}, {Key: "required", Type: TypeString}, {Key: "count", Type: TypeInteger, Default: "-3"},
			{Key: "ratio", Type: TypeDouble, Default: "0.5"}, {Key: "eager", Type: TypeBoolean, Default: "false"},
			{Key: "wait", Type: TypeDuration, Default: "5 seconds"}, {Key: "size", Type: TypeMemorySize, Default: "64KiB", Description: "how much"}}}},
	"many-ports": {ProtocolVersion: "1.0", SDK: SDK{"fixture", "0.0.0"}, Streamlet: Streamlet{Name: "many-ports",
		Inlets:  []Port{{"z", contractOf("z.v1")}, {"a-1", contractOf("a.v1")}, {"a", contractOf("a.v1")}},
		Outlets: []Port{{"y", contractOf("y.v1")}, {"b", contractOf("b.v1")}}}},
}

func TestCanonicalJSON(t *testing.T) {
	for name, d := range declarations {
		path := "testdata/descriptors/" + name + ".json"
		if *rewrite {
			if err := os.WriteFile(path, d.CanonicalJSON(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.CanonicalJSON(); string(got) != string(want) {
			t.Errorf("%s\n got %s\nwant %s", name, got, want)
		}
		if problems := d.Validate(); problems != nil {
			t.Errorf("%s: %v", name, problems)
		}
		back, err := ParseDescriptorJSON(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := back.CanonicalJSON(); string(again) != string(want) {
			t.Errorf("%s is not the same after a round trip", name)
		}
		if diff := Differences(back, &d); diff != nil {
			t.Errorf("%s differs from itself in another order: %v", name, diff)
		}
		checkOverTheWire(t, d)
	}
	if files, _ := filepath.Glob("testdata/descriptors/*.json"); len(files) != len(declarations) {
		t.Errorf("%d files, %d declarations", len(files), len(declarations))
	}
}

func checkOverTheWire(t *testing.T, d Descriptor) {
	t.Helper()
	frame, err := Append(nil, Spec{Descriptor: d, Capabilities: DefaultCapabilities()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseFromProcess(frame[4:])
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(Spec).Descriptor; string(got.CanonicalJSON()) != string(d.CanonicalJSON()) {
		t.Errorf("over the wire\n got %+v\nwant %+v", got, d)
	}
}

func TestFingerprint(t *testing.T) {
	if got := Fingerprint("cart-events.v1"); got != cartFingerprint {
		t.Errorf("got %s", got)
	}
}

// wantProblems fails unless got is exactly want: every problem, at once.
func wantProblems(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	d := Descriptor{ProtocolVersion: "one", Streamlet: Streamlet{Name: "-Bad",
		Inlets:  []Port{{"In", contractOf("a")}, {"x", Contract{Format: "avro", SchemaName: "a", Fingerprint: "?"}}},
		Outlets: []Port{{"x", Contract{Format: "json"}}},
		Parameters: []Parameter{{Key: "1"}, {Key: "a", Type: "FLOAT"}, {Key: "a", Type: TypeInteger, Default: "1.5"},
			{Key: "d", Type: TypeDuration, Default: "5 parsecs"}}}}
	wantProblems(t, d.Validate(),
		`protocol_version "one" is not MAJOR.MINOR, as "1.0"`,
		`streamlet.name "-Bad" must be 1 to 63 of a-z, 0-9 and -, without a - at either end`,
		`inlet "In": its name must be a letter a-z, then at most 62 of a-z, 0-9 and -`,
		`inlet "x": contract.format is "avro"; "json" is the only format`,
		`inlet "x": contract.fingerprint is "?", but that of schema_name "a" is "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs="`,
		`outlet "x": the name is already that of an inlet; names are unique across inlets and outlets`,
		`outlet "x": contract.schema_name is missing`,
		`parameter "1": its key must be a letter a-z, then a-z, 0-9 and -`,
		`parameter "a": type "FLOAT" is none of STRING, INTEGER, DOUBLE, BOOLEAN, DURATION, MEMORY_SIZE`,
		`parameter "a": the key is declared twice`,
		`parameter "a": its default "1.5" is no integer within 2^53 - 1 of 0`,
		`parameter "d": its default "5 parsecs" is no duration; write a number and one of ns, us, ms, s, m, h, d, as 500ms or "5 seconds"`)
	wantProblems(t, (&Descriptor{ProtocolVersion: "1.0", Streamlet: Streamlet{Name: "a"}}).Validate(),
		"the streamlet declares neither inlets nor outlets: nothing could reach it or leave it")
}

func TestNamesAtTheirLimits(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "0": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
		"a-": false, "-a": false, "": false, "a-b": true, "ä": false, "a_b": false} {
		if validName(name) != ok {
			t.Errorf("streamlet name %q: %v", name, !ok)
		}
	}
	for name, ok := range map[string]bool{"a": true, "0": false, "a-": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false, "": false} {
		if validPort(name) != ok {
			t.Errorf("port name %q: %v", name, !ok)
		}
	}
	if !validKey(strings.Repeat("a", 200)) || validKey("A") {
		t.Error("keys")
	}
}

func TestDifferencesNamesEveryOne(t *testing.T) {
	a := cartRouter
	b := cartRouter
	b.ProtocolVersion, b.SDK = "1.1", SDK{"other", "9"} // not compared
	wantProblems(t, Differences(&a, &b))
	b.Streamlet.Name, b.Streamlet.Description = "router", ""
	b.Streamlet.Inlets = []Port{{"in", contractOf("cart-events.v2")}, {"more", contractOf("a")}}
	b.Streamlet.Outlets = b.Streamlet.Outlets[1:]
	b.Streamlet.Parameters = []Parameter{{Key: "review-threshold", Type: TypeDouble, Default: "10", Description: "?"}, {Key: "new"}}
	wantProblems(t, Differences(&a, &b),
		`the streamlet's name is "cart-router" in the deployed descriptor, "router" in the process's`,
		`the streamlet's description is "Sends large carts to review, the others to valid." in the deployed descriptor, "" in the process's`,
		`inlet "in": contract.schema_name is "cart-events.v1" in the deployed descriptor, "cart-events.v2" in the process's`,
		`inlet "in": contract.fingerprint is "`+cartFingerprint+`" in the deployed descriptor, "`+Fingerprint("cart-events.v2")+`" in the process's`,
		`inlet "more" is declared by the process, the deployed descriptor does not have it`,
		`outlet "review" is in the deployed descriptor, the process does not declare it`,
		`parameter "new" is declared by the process, the deployed descriptor does not have it`,
		`parameter "review-threshold": type is "INTEGER" in the deployed descriptor, "DOUBLE" in the process's`,
		`parameter "review-threshold": default_value is "100" in the deployed descriptor, "10" in the process's`,
		`parameter "review-threshold": description is "The total from which a cart is large." in the deployed descriptor, "?" in the process's`)
}

func TestParseDescriptorJSONIsStrict(t *testing.T) {
	good := string(cartRouter.CanonicalJSON())
	for text, want := range map[string]string{
		"\xef\xbb\xbf" + good:                  "the descriptor: it begins with a byte-order mark; save it without one",
		good + "{}":                            "the descriptor: it is not JSON: text follows the object",
		"":                                     "the descriptor: it is not JSON: EOF",
		strings.Repeat("[", 40):                "the descriptor: it is not JSON: it nests deeper than 32",
		"[]":                                   "the descriptor: the whole must be an object",
		strings.Replace(good, "1.0", "1", 1):   `the descriptor: protocol_version "1" is not MAJOR.MINOR, as "1.0"`,
		strings.Replace(good, "sdk", "skd", 1): `the descriptor: skd is no known key; did you mean "sdk"?`,
		`{"sdk":{"name":1},"streamlet":{"inlets":{},"outlets":[{"nme":"x"}],"name":null},"sdk":{}}`: "the descriptor has 4 problems:\n" +
			`  key "sdk" is given twice` + "\n  streamlet.inlets must be an array\n  streamlet.name must be a text\n" +
			`  streamlet.outlets[0].nme is no known key; did you mean "name"?`,
	} {
		_, err := ParseDescriptorJSON([]byte(text))
		var p *ProblemsError
		if !errors.As(err, &p) || err.Error() != want {
			t.Errorf("%.60q\n got %v\nwant %s", text, err, want)
		}
	}
	d, err := ParseDescriptorJSON([]byte(strings.Replace(good, `"type": "INTEGER"`, `"type": "STRING"`, 1)))
	if err != nil || d.Streamlet.Parameters[0].Type != "" {
		t.Errorf("a spelled-out STRING: %v", err)
	}
}

func TestCase30_Versions(t *testing.T) {
	for version, want := range map[string]string{
		"1.0":  "",
		"1.1":  "the process speaks protocol 1.1, this supervisor speaks 1.0: it is too old for the process; update ankka-flow, or use an older SDK",
		"99.0": "the process speaks protocol 99.0, this supervisor speaks 1.0: another major version; use an SDK and an ankka-flow of the same",
		"0.9":  "the process speaks protocol 0.9, this supervisor speaks 1.0: another major version; use an SDK and an ankka-flow of the same",
		"99":   `the process gives "99" as its protocol version, which is not MAJOR.MINOR; this supervisor speaks 1.0`,
		"":     `the process gives "" as its protocol version, which is not MAJOR.MINOR; this supervisor speaks 1.0`,
	} {
		got := ""
		if err := CheckVersion(version); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", version, got, want)
		}
	}
	for _, bad := range []string{"dev", "1.0.0", "1.2.3-rc1+dirty", "+1.0", "01.0", "1.", ".1", "1.-1", "1 .0", "1.99999999999999999999"} {
		if err := CheckVersion(bad); err == nil || !strings.Contains(err.Error(), "not MAJOR.MINOR") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestResolveConfig(t *testing.T) {
	params := declarations["every-type"].Streamlet.Parameters
	got, problems := ResolveConfig(params, map[string]string{"required": " as it is ", "count": "7", "wait": "1m"})
	want := map[string]any{"text": "hello", "required": " as it is ", "count": int64(7), "ratio": 0.5, "eager": false,
		"wait": int64(60000), "size": int64(65536)}
	if problems != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, problems)
	}
	_, problems = ResolveConfig(params, map[string]string{"cuont": "1", "eager": "yes", "size": "1 parsec", "zzz": ""})
	wantProblems(t, problems,
		`parameter "eager": "yes" is neither true nor false`,
		`parameter "required" (STRING) has no default and is not given; set it in the configuration, or with --param required=VALUE`,
		`parameter "size": "1 parsec" is no size; write a number and a unit, as 64KiB (1,024 each) or 10MB (1,000,000 each)`,
		`the streamlet declares no parameter "cuont"; did you mean "count"?`,
		`the streamlet declares no parameter "zzz"; known are: count, eager, ratio, required, size, text, wait`)
	_, problems = ResolveConfig(nil, map[string]string{"a": ""})
	wantProblems(t, problems, `the streamlet declares no parameter "a"; it has none`)
}

func TestParseValue(t *testing.T) {
	good := []struct {
		typ, text string
		want      any
	}{
		{TypeInteger, " 9007199254740991 ", int64(MaxInteger)}, {TypeInteger, "-9007199254740991", int64(-MaxInteger)}, {TypeInteger, "+5", int64(5)},
		{TypeDouble, "1e3", 1000.0}, {TypeDouble, "-.5", -0.5}, {TypeBoolean, " true", true},
		{TypeDuration, "500ms", int64(500)}, {TypeDuration, "5s", int64(5000)}, {TypeDuration, "1m", int64(60000)}, {TypeDuration, "5 seconds", int64(5000)},
		{TypeDuration, "1.5m", int64(90000)}, {TypeDuration, "2h", int64(7200000)}, {TypeDuration, "1 day", int64(86400000)}, {TypeDuration, "100", int64(100)},
		{TypeDuration, "500us", 0.5}, {TypeDuration, "1500 micros", 1.5}, {TypeDuration, "1000000ns", int64(1)}, {TypeDuration, "-1s", int64(-1000)},
		{TypeDuration, "1e3 ms", int64(1000)}, {TypeDuration, "9007199254740991ms", int64(MaxInteger)}, {TypeDuration, "0", int64(0)},
		{TypeMemorySize, "64KiB", int64(65536)}, {TypeMemorySize, "1 MiB", int64(1 << 20)}, {TypeMemorySize, "10MB", int64(10_000_000)}, {TypeMemorySize, "512k", int64(524288)},
		{TypeMemorySize, "1000", int64(1000)}, {TypeMemorySize, "1.5K", int64(1536)}, {TypeMemorySize, "2 kilobytes", int64(2000)}, {TypeMemorySize, "2 kibibytes", int64(2048)},
		{TypeMemorySize, "1 kB", int64(1000)}, {TypeMemorySize, "1Gi", int64(1 << 30)}, {TypeMemorySize, "1.9b", int64(1)}, {TypeMemorySize, "1E", nil},
		{TypeMemorySize, "9007199254740991B", int64(MaxInteger)}, {TypeMemorySize, "8192T", nil}, {TypeMemorySize, "8191T", int64(8191 << 40)},
		{TypeMemorySize, "KB", nil}, {TypeMemorySize, "1KB", nil}, {TypeMemorySize, "-1", nil}, {TypeMemorySize, "", nil}, {TypeMemorySize, "9007199254740992", nil},
		{TypeInteger, "9007199254740992", nil}, {TypeInteger, "1_000", nil}, {TypeInteger, "0x10", nil}, {TypeInteger, "1.0", nil}, {TypeInteger, "", nil},
		{TypeDouble, "NaN", nil}, {TypeDouble, "inf", nil}, {TypeDouble, "1e999", nil}, {TypeDouble, "0x1p4", nil}, {TypeDouble, "1_0", nil},
		{TypeBoolean, "yes", nil}, {TypeBoolean, "", nil}, {TypeDuration, "s", nil}, {TypeDuration, "1.5.5s", nil}, {TypeDuration, "1m30s", nil}, {TypeDuration, "1 M", nil},
		{TypeDuration, "1e300d", nil}, {TypeDuration, "9007199254740992", nil}, {"FLOAT", "1", nil},
	}
	for _, c := range good {
		got, err := ParseValue(c.typ, c.text)
		if (err != nil) != (c.want == nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %q: %v (%T), %v; want %v", c.typ, c.text, got, got, err, c.want)
		}
	}
}

func TestPortNames(t *testing.T) {
	got := PortNames(declarations["many-ports"].Streamlet.Inlets)
	if !sort.StringsAreSorted(got) || len(got) != 3 {
		t.Errorf("got %v", got)
	}
}
