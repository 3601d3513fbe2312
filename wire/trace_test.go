package wire

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

func TestTraceLine(t *testing.T) {
	for _, c := range []struct {
		body []byte
		want string
	}{
		{body(t, "emit", 7, "out", list{list{bin("secret-key"), bin("secret-value"), list{list{bin("trace"), bin("secret")}, list{bin("\xff"), nil}}, nil}}),
			`"frame":["emit",7,"out",[[{"bytes":10},{"bytes":12},[["trace",{"bytes":6}],[{"base64":"/w=="},null]],null]]]}`},
		{body(t, "batch", 7, "in", 0, list{list{41, 5, nil, []byte{}, list{list{bin("n"), bin("v")}}}}, map[string]any{"attempt": 1}),
			`"frame":["batch",7,"in",0,[[41,5,null,{"bytes":0},[["n",{"bytes":1}]]]],{"attempt":1}]}`},
		{body(t, "start", map[string]any{"config": map[string]any{"password": "secret"}}), `"frame":["start",{"config":{"password":{"text_bytes":6}}}]}`},
		{body(t, "report", nil, list{list{"n", "gauge", nil, 1.5}}), `"frame":["report",null,[["n","gauge",null,1.5]]]}`},
		{body(t, "ack", true), `"frame":["ack",true]}`},
		{[]byte("hello"), `"frame":104,"malformed":"a frame: 4 bytes follow the message's array; a frame holds one array and its length counts just that"}`},
		{nil, `"frame":null,"malformed":"a frame: a value is said to have 1 value, but 0 bytes are left in the frame; write one frame at a time, whole"}`},
		{body(t, "ack", raw{0xd4, 1, 1}), `"frame":["ack",null],"malformed":"ack: a value is of a msgpack extension type; the protocol has none: send text, numbers or bytes"}`},
	} {
		line := string(TraceLine(nil, 1234, "in", c.body))
		head := `{"ms":1234,"dir":"in","bytes":`
		if !strings.HasPrefix(line, head) || !strings.HasSuffix(line, c.want+"\n") {
			t.Errorf("got %swant ...%s", line, c.want)
		}
		checkLine(t, line)
	}
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if strings.Count(line, "\n") != 1 || !json.Valid([]byte(line)) || strings.Contains(line, "secret") {
		t.Errorf("not one line of JSON without secrets: %q", line)
	}
}

func TestTraceLineOfEveryGoldenFrame(t *testing.T) {
	for i := range goldens {
		frame, err := hex.DecodeString(readGolden(t, goldenPath(i)).Hex)
		if err != nil {
			t.Fatal(err)
		}
		line := string(TraceLine(nil, 1, "out", frame[4:]))
		checkLine(t, line)
		if strings.Contains(line, "malformed") {
			t.Errorf("%s: %s", goldens[i].name, line)
		}
		for n := range frame[4:] {
			checkLine(t, string(TraceLine(nil, 1, "out", frame[4:4+n])))
		}
	}
}
