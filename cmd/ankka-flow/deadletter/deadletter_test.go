package deadletter

import (
	"fmt"
	"strings"
	"testing"

	"ankka-flow/delivery/record"
)

// headers makes headers of NAME=VALUE; NAME alone is a null one.
func headers(given ...string) []record.Header {
	var out []record.Header
	for _, g := range given {
		name, value, ok := strings.Cut(g, "=")
		h := record.Header{Name: []byte(name)}
		if ok {
			h.Value = []byte(value)
		}
		out = append(out, h)
	}
	return out
}

// ours is a letter of an SDK of ours that failed first in a/1 and last in b.
func ours(more ...string) []record.Header {
	return headers(append([]string{
		"user=1", "__connect.errors.topic=a", "__connect.errors.stage=OLD", "__flow.errors.topic=b", "__flow.errors.partition=2", "__flow.errors.origin.topic=a",
		"__flow.errors.origin.partition=1", "__flow.errors.stage=TRANSFORMATION", "__flow.errors.exception.class.name=ValueError", "__flow.errors.reason=poison", "user",
	}, more...)...)
}

func TestLetterSaysWhereAndWhy(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []record.Header
		want    Letter
	}{
		{"ours: the first place, the latest failure", ours("__flow.errors.redrives=2"), Letter{"a", 1, "b", "TRANSFORMATION", "ValueError", "poison", 2}},
		{"without an origin", headers("__flow.errors.topic=b", "__flow.errors.partition=2"), Letter{"b", 2, "b", "", "", "", 0}},
		{"Connect's", headers("__connect.errors.topic=a", "__connect.errors.partition=3", "__connect.errors.stage=VALUE_CONVERTER",
			"__connect.errors.exception.class.name=DataException", "__connect.errors.exception.message"), Letter{"a", 3, "a", "VALUE_CONVERTER", "DataException", "", 0}},
		{"Connect's, twice round", headers("__connect.errors.topic=older", "__connect.errors.partition=1", "__connect.errors.topic=orders", "__connect.errors.partition=0"),
			Letter{"orders", 0, "orders", "", "", "", 0}},
		{"none", headers("user=1"), Letter{Partition: AnyPartition}},
		{"null and nonsense", headers("__flow.errors.topic", "__flow.errors.origin.topic=a", "__flow.errors.origin.partition=-1", "__flow.errors.redrives=many"),
			Letter{Topic: "a", Partition: AnyPartition, Redrives: Unreadable}},
	} {
		if got := Read(c.headers); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestRedrivenIsTheRecordWithoutItsFailure(t *testing.T) {
	r := record.Record{Offset: 7, Timestamp: 5, Key: nil, Value: []byte{}, Headers: ours("__flow.errors.redrives=2", "user=3")}
	l := Read(r.Headers)
	got := Redriven(&r, &l)
	want := headers("user=1", "__flow.errors.origin.topic=a", "__flow.errors.origin.partition=1", "user", "user=3", "__flow.errors.redrives=3")
	if got.Key != nil || got.Value == nil || len(got.Value) != 0 || got.Timestamp != record.Now || shown(got.Headers) != shown(want) {
		t.Errorf("%+v\nheaders %s\n   want %s", got, shown(got.Headers), shown(want))
	}
}

// shown tells null from empty.
func shown(headers []record.Header) string {
	var out []string
	for _, h := range headers {
		out = append(out, fmt.Sprintf("%s=%q %v", h.Name, h.Value, h.Value == nil))
	}
	return strings.Join(out, ", ")
}

func TestSelectionJudges(t *testing.T) {
	for _, c := range []struct {
		name    string
		s       Selection
		headers []record.Header
		want    Verdict
	}{
		{"all", Selection{nil, Origin, 3}, ours(), Redrive},
		{"every condition holds", Selection{[]Where{{"user", ""}, {"__flow.errors.reason", "poison"}}, Origin, 3}, ours(), Redrive},
		{"one does not", Selection{[]Where{{"__flow.errors.reason", "poison"}, {"__flow.errors.stage", "TASK_PUT"}}, Origin, 3}, ours(), Unselected},
		{"no such header", Selection{[]Where{{"nobody", ""}}, Origin, 3}, ours(), Unselected},
		{"of two the last", Selection{[]Where{{"user", "1"}}, Origin, 3}, ours(), Unselected},
		{"below the limit", Selection{nil, Origin, 3}, ours("__flow.errors.redrives=2"), Redrive},
		{"at the limit", Selection{nil, Origin, 3}, ours("__flow.errors.redrives=3"), TooOften},
		{"over it, elsewhere", Selection{nil, "quarantine", 3}, ours("__flow.errors.redrives=9"), TooOften},
		{"a count that is none", Selection{nil, Origin, 3}, ours("__flow.errors.redrives=x"), TooOften},
		{"no origin", Selection{nil, Origin, 3}, headers("user=1"), NoOrigin},
		{"no origin, a topic", Selection{nil, "quarantine", 3}, headers("user=1"), Redrive},
	} {
		l := Read(c.headers)
		if got := c.s.Judge(c.headers, &l); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPlaceIsTheOriginsPartition(t *testing.T) {
	l := Read(ours())
	if topic, partition := (&Selection{To: Origin}).Place(&l); topic != "a" || partition != 1 {
		t.Errorf("origin: %s/%d", topic, partition)
	}
	if topic, partition := (&Selection{To: "q"}).Place(&l); topic != "q" || partition != AnyPartition {
		t.Errorf("a topic: %s/%d", topic, partition)
	}
}

func TestGroupHasTheSelectionInIt(t *testing.T) {
	s := Selection{[]Where{{"b", "x=&?%\x7f\n"}, {"a", "ä"}, {"b", "x=&?%\x7f\n"}}, "q", 5}
	group := s.Group("case.dlq")
	if want := "ankka-flow.redrive.case.dlq?max-redrives=5&to=q&where=a%3D%C3%A4&where=b%3Dx%3D%26%3F%25%7F%0A"; group != want {
		t.Errorf("%s, want %s", group, want)
	}
	got, ok := ParseGroup(group, "case.dlq")
	if !ok || got.To != "q" || got.MaxRedrives != 5 || fmt.Sprint(got.Where) != fmt.Sprint(s.sorted()) {
		t.Errorf("read back as %+v, %v", got, ok)
	}
	for _, other := range []string{"router", group + "&x=1", "ankka-flow.redrive.case.dlq2?max-redrives=5&to=q", "ankka-flow.redrive.case.dlq?to=q", "ankka-flow.redrive.case.dlq?%"} {
		if s, ok := ParseGroup(other, "case.dlq"); ok {
			t.Errorf("%s is taken for %+v", other, s)
		}
	}
}

// A letter is done where any redrive that meant it has come past it: one that did not mean
// it, or left it, has done nothing to it.
func TestPlanKnowsWhatIsDone(t *testing.T) {
	poison, decode := []Where{{"__flow.errors.reason", "poison"}}, []Where{{"__flow.errors.reason", "decode"}}
	at := map[int32]int64{0: 5}
	for _, c := range []struct {
		name      string
		past      []Past
		partition int32
		offset    int64
		headers   []record.Header
		want      Verdict
	}{
		{"nothing before", nil, 0, 4, ours(), Redrive},
		{"below", []Past{{Selection{nil, Origin, 3}, at}}, 0, 4, ours(), Done},
		{"the next one", []Past{{Selection{nil, Origin, 3}, at}}, 0, 5, ours(), Redrive},
		{"another partition", []Past{{Selection{nil, Origin, 3}, at}}, 1, 4, ours(), Redrive},
		{"by another selection", []Past{{Selection{poison, "q", 3}, at}}, 0, 4, ours(), Done},
		{"passed over by one", []Past{{Selection{decode, Origin, 3}, at}}, 0, 4, ours(), Redrive},
		{"left for its limit", []Past{{Selection{nil, Origin, 2}, at}}, 0, 4, ours("__flow.errors.redrives=2"), Redrive},
		{"the second of two", []Past{{Selection{decode, Origin, 3}, at}, {Selection{nil, "q", 3}, at}}, 0, 4, ours(), Done},
	} {
		p := Plan{Selection{nil, Origin, 3}, c.past}
		l := Read(c.headers)
		if got := p.Judge(c.partition, &record.Record{Offset: c.offset, Headers: c.headers}, &l); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestHistogramCounts(t *testing.T) {
	h := Histogram{}
	one, two := Letter{Topic: "a", Partition: 1}, Letter{Topic: "a", Partition: 2}
	h.Add(&one, Redrive, "a")
	h.Add(&two, Redrive, "a")
	h.Add(&one, Redrive, "b")
	h.Add(&one, Done, "c")
	if kinds := h.Kinds(); len(kinds) != 3 || h[kinds[0]] != 2 || kinds[1].Verdict != Done || h.Count(Redrive) != 3 || h.Count(TooOften) != 0 || fmt.Sprint(h.Targets()) != "[a b]" {
		t.Errorf("%v %v", h, h.Targets())
	}
}

func TestShownCannotHarmATerminal(t *testing.T) {
	for text, want := range map[string]string{"ValueError": "ValueError", "ä": "ä", "a\tb\x1b[2J": `"a\tb\x1b[2J"`, "\xff": `"\xff"`, strings.Repeat("x", 121): strings.Repeat("x", 120) + "..."} {
		if got := Shown(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}
