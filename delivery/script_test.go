package delivery

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the actions that the core answers into the scripts of testdata; commit only a difference you can explain")

// eventTypes has one of every event: the parser's table. TestTraceRoundTrip
// compares it with event.go.
var eventTypes = []Event{
	Assigned{}, Revoked{}, Suspended{}, Lost{}, Fetched{}, FetchFailed{}, Written{}, WriteUnknown{}, Refused{},
	Unsettled{}, EpochRaised{}, Committed{}, Launched{}, LaunchFailed{}, SpecGood{}, SpecRefused{},
	Cut{}, Oversized{}, Withdrawn{}, Emitted{}, Acked{}, Failed{}, Statused{}, StoppedByProcess{}, Violated{},
	OutputClosed{}, Unreachable{}, Exited{}, StopAsked{}, ReloadAsked{}, Ticked{},
}

// parseEvent reads the trace format back.
func parseEvent(line string) (Event, error) {
	fields := splitFields(line)
	for _, proto := range eventTypes {
		t := reflect.TypeOf(proto)
		if t.Name() != fields[0] {
			continue
		}
		v := reflect.New(t).Elem()
		for _, f := range fields[1:] {
			if err := setField(v, f); err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
		}
		return v.Interface().(Event), nil
	}
	return nil, fmt.Errorf("%q is no event", fields[0])
}

func setField(v reflect.Value, field string) error {
	name, value, hasValue := strings.Cut(field, "=")
	for i := range v.NumField() {
		if fieldName(v.Type().Field(i).Name) != name {
			continue
		}
		if !hasValue {
			value = "true"
		}
		return setValue(v.Field(i), value)
	}
	return fmt.Errorf("no field %q", name)
}

func setValue(v reflect.Value, s string) error {
	var x any
	var err error
	switch v.Interface().(type) {
	case TP:
		x, err = parseTP(s)
	case time.Duration:
		x, err = time.ParseDuration(s)
	case CommitOutcome:
		for i, n := range outcomeNames {
			if n == s {
				x = CommitOutcome(i)
			}
		}
	case string:
		if x, err = strconv.Unquote(s); err != nil {
			x, err = s, nil
		}
	case []string:
		x, err = parseList(s, func(s string) (string, error) { return strconv.Unquote(s) })
	case []TP:
		x, err = parseList(s, parseTP)
	case []int32:
		x, err = parseList(s, parseInt32)
	case []Start:
		x, err = parseList(s, parseStart)
	case bool:
		x, err = strconv.ParseBool(s)
	default:
		n, perr := strconv.ParseInt(s, 10, 64)
		if perr != nil {
			return perr
		}
		v.Set(reflect.ValueOf(n).Convert(v.Type()))
		return nil
	}
	if err != nil || x == nil {
		return fmt.Errorf("cannot read %q: %w", s, err)
	}
	v.Set(reflect.ValueOf(x))
	return nil
}

func parseTP(s string) (TP, error) {
	inlet, n, _ := strings.Cut(s, "/")
	p, err := parseInt32(n)
	return TP{inlet, p}, err
}

func parseInt32(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err
}

func parseStart(s string) (Start, error) {
	s, looked := strings.CutSuffix(s, "?")
	p, o, _ := strings.Cut(s, "@")
	n, err := parseInt32(p)
	if err != nil {
		return Start{}, err
	}
	off, err := strconv.ParseInt(o, 10, 64)
	return Start{n, off, looked}, err
}

func parseList[T any](s string, f func(string) (T, error)) ([]T, error) {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	list := []T{}
	for _, part := range splitOutsideQuotes(s, ',') {
		x, err := f(part)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

func splitFields(line string) []string { return splitOutsideQuotes(strings.TrimSpace(line), ' ') }

func splitOutsideQuotes(s string, sep byte) []string {
	var parts []string
	quoted, start := false, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == sep && !quoted:
			if i > start {
				parts = append(parts, s[start:i])
			}
			start = i + 1
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		}
	}
	return parts
}

// TestScripts replays the scripts of testdata, which are also the way to learn
// what the core does. A line of a script is
//
//	# prose
//	config MaxRecords=10        before the first event
//	1.5s Acked process=1 id=3   an event and when it comes
//	    Write id=3              an action that it calls for
//	status                      the status, a line a partition below it
//
// With -rewrite the actions are written anew.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d scripts, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay(string(want))
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := firstDifference(got, string(want)); d != "" {
				t.Error(d)
			}
		})
	}
}

// replay runs a script and returns it with the actions that the core answers.
func replay(script string) (string, error) {
	var out strings.Builder
	var cfg Config
	var core *Core
	for _, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "    "):
			continue
		case line == "" || line[0] == '#':
			out.WriteString(line + "\n")
			continue
		}
		out.WriteString(line + "\n")
		if rest, ok := strings.CutPrefix(line, "config "); ok {
			for _, f := range splitFields(rest) {
				if err := setConfig(&cfg, f); err != nil {
					return "", err
				}
			}
			continue
		}
		if core == nil {
			core = New(cfg)
		}
		if line == "status" {
			writeStatus(&out, core.Status())
			continue
		}
		at, event, _ := strings.Cut(line, " ")
		now, err := time.ParseDuration(at)
		if err != nil {
			return "", fmt.Errorf("%q does not begin with a time: %w", line, err)
		}
		ev, err := parseEvent(event)
		if err != nil {
			return "", err
		}
		for _, a := range core.Step(nil, now, ev) {
			out.WriteString("    " + a.String() + "\n")
		}
		core.valid()
	}
	return out.String(), nil
}

func writeStatus(out *strings.Builder, s Status) {
	fmt.Fprintf(out, "    %v ready=%v wake=%v inFlight=%d owed=%d held=%d committed=%d/%d/%d failures=%d stale=%d\n",
		s.State, s.Ready, s.NextDiscovery, s.InFlight, s.Owed, s.HeldBytes, s.Batches, s.In, s.Out, s.Failures, s.Stale)
	for _, p := range s.Partitions {
		fmt.Fprintf(out, "    %v %s K=%d C=%d position=%d inFlight=%d attempts=%d failures=%d since=%v why=%q error=%q",
			p.TP, p.State, p.Committed, p.Confirmed, p.Position, p.InFlight, p.Attempts, p.Failures, p.Since, p.Why, p.LastError)
		if p.Standing != "" {
			fmt.Fprintf(out, " standing=%s suspect=%d tries=%d nextTry=%v", p.Standing, p.Suspect, p.Tries, p.NextTry)
		}
		out.WriteString("\n")
	}
}

func setConfig(cfg *Config, field string) error {
	name, value, has := strings.Cut(field, "=")
	f := reflect.ValueOf(cfg).Elem().FieldByName(name)
	if !f.IsValid() {
		return fmt.Errorf("no configuration %q", name)
	}
	if !has {
		value = "true"
	}
	return setValue(f, value)
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d:\n got: %s\nwant: %s", i+1, a, b)
		}
	}
	return ""
}

// TestTraceRoundTrip: every event is in the parser's table, and what String
// writes is read back.
func TestTraceRoundTrip(t *testing.T) {
	source, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`\) +event\(\)`).FindAll(source, -1)); n != len(eventTypes) {
		t.Errorf("event.go has %d events, the parser %d", n, len(eventTypes))
	}
	for _, proto := range eventTypes {
		v := reflect.New(reflect.TypeOf(proto)).Elem()
		for i := range v.NumField() {
			fill(v.Field(i), i+1)
		}
		want := v.Interface().(Event)
		got, err := parseEvent(want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v was read back as %v, error %v", want, got, err)
		}
	}
}

func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case TP:
		v.Set(reflect.ValueOf(TP{"in", int32(n)}))
	case string:
		v.SetString(fmt.Sprintf("a \"text\", [%d]", n))
	case []string:
		v.Set(reflect.ValueOf([]string{"a b", "c,\"d"}))
	case []TP:
		v.Set(reflect.ValueOf([]TP{{"in", 1}, {"other", 2}}))
	case []int32:
		v.Set(reflect.ValueOf([]int32{1, 2}))
	case []Start:
		v.Set(reflect.ValueOf([]Start{{1, 10, false}, {2, 20, true}}))
	case CommitOutcome:
		v.Set(reflect.ValueOf(CommitRefused))
	case bool:
		v.SetBool(true)
	default:
		v.Set(reflect.ValueOf(n).Convert(v.Type()))
	}
}

// valid checks the guarantees that each structure states.
func (c *Core) valid() {
	var with withProcess
	held, writing, gated, batches := 0, 0, 0, 0
	c.eachPartition(func(p *partition) {
		p.valid()
		for _, b := range [...]*batch{p.p, p.w, p.owed} {
			if b == nil {
				continue
			}
			held += b.held
			if b.sent {
				batches++
			}
			if b == p.w {
				writing++
			}
			if b == p.owed || b == p.p && !b.acked {
				with.add(b)
				if b.void {
					with.turnVoid()
				}
				if b.waiting {
					with.waiting++
				}
			}
		}
		if p.gate == gateWaiting {
			gated++
		}
		if p.queued != contains(c.queue, p) {
			panic(fmt.Sprintf("delivery: %v queued=%v is not what the queue says", p.tp, p.queued))
		}
	})
	if with != c.with || held != c.held || writing != c.writing || gated != c.flow.gated || batches != len(c.batches) {
		panic(fmt.Sprintf("delivery: the books do not agree: with %+v and %+v, held %d and %d, writing %d and %d, gated %d and %d, batches %d and %d",
			with, c.with, held, c.held, writing, c.writing, gated, c.flow.gated, batches, len(c.batches)))
	}
	c.validCharges()
}

// validCharges checks what trial.go, charge.go and convict.go state.
func (c *Core) validCharges() {
	bad := func(p *partition, what string) {
		panic(fmt.Sprintf("delivery: %v: %s: %+v, committed %d, debt %d; trials %+v; convicts %+v", p.tp, what, p.charge, p.committed, p.debt, c.trials, c.convicts))
	}
	t, k := &c.trials, &c.convicts
	docket, debts := 0, 0
	c.eachPartition(func(p *partition) {
		ch := &p.charge
		charged := ch.standing != blameless
		switch {
		case !charged && *ch != charge{}:
			bad(p, "a blameless partition has something of a charge left")
		case charged && p.state == lost:
			bad(p, "a lost partition is charged")
		case charged && (ch.first >= ch.end || ch.records < 1 || p.committed >= ch.end):
			bad(p, "it is charged with nothing that is uncommitted")
		case (ch.standing == convicted) != (ch.wait > 0):
			bad(p, "it is convicted without a failure")
		case charged && ch.due && ch.trial != 0:
			bad(p, "its trial is due and has been delivered")
		case p.gate == gateWaiting && ch.standing != convicted && p.oversized != p.position:
			bad(p, "it waits and is not convicted")
		case p.debt > 0 && (p.state == lost || p.committed >= p.debt || charged):
			bad(p, "it has a debt that is over")
		}
		if charged {
			docket++
		}
		if p.debt > 0 {
			debts++
		}
	})
	for i, p := range t.docket {
		if slices.Index(t.docket, p) != i || p.charge.standing == blameless {
			bad(p, "it should not be here on the docket")
		}
	}
	for i, p := range k.debts {
		if slices.Index(k.debts, p) != i || p.debt == 0 {
			bad(p, "it should not be here among the debts")
		}
	}
	switch {
	case docket != len(t.docket) || debts != len(k.debts):
		panic(fmt.Sprintf("delivery: %d are charged and %d on the docket, %d have debts and %d are listed", docket, len(t.docket), debts, len(k.debts)))
	case t.part != nil && c.conv.state != Running && c.conv.state != Stopping:
		bad(t.part, "it is on trial without a conversation")
	case t.part != nil && t.part.charge.standing == blameless:
		bad(t.part, "it is on trial and blameless")
	case t.batch != nil && (t.part == nil || t.batch.part != t.part):
		panic("delivery: a batch is on trial without its partition")
	case k.spent < 0 || k.spent > allowance+max(k.cost, c.now):
		panic(fmt.Sprintf("delivery: spent is %v", k.spent))
	}
}

func contains(q queue, p *partition) bool {
	for _, x := range q.items[q.head:] {
		if x == p {
			return true
		}
	}
	return false
}
