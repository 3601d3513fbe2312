package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"ankka-flow/delivery/record"
)

// oddRecords hold everything that a careless codec loses (R8), and every width of
// a length and of an integer.
func oddRecords() []record.Record {
	records := []record.Record{
		{Timestamp: record.NoTimestamp},
		{Key: []byte{}, Value: []byte{}},
		{Offset: 127, Timestamp: 128, Key: bin("k"), Headers: []record.Header{{Name: bin("\xff"), Value: nil}, {Name: bin("\xff"), Value: []byte{}}, {Name: []byte{}, Value: bin("v")}}},
		{Offset: MaxInteger, Timestamp: MaxInteger},
	}
	for _, n := range []int{31, 32, 255, 256, 65535, 65536} {
		blob := bytes.Repeat([]byte{byte(n)}, n)
		records = append(records, record.Record{Offset: int64(n), Timestamp: int64(n) << 16, Key: blob, Value: blob,
			Headers: []record.Header{{Name: blob, Value: blob}}})
	}
	for _, n := range []int{15, 16, 300} {
		r := record.Record{Offset: 1}
		for i := range n {
			r.Headers = append(r.Headers, record.Header{Name: bin(fmt.Sprint("h", i%3)), Value: bin(fmt.Sprint(i))})
		}
		records = append(records, r)
	}
	return records
}

func TestR8_InboundRecordsCrossUnchanged(t *testing.T) {
	want := Batch{ID: 1 << 40, Inlet: "in", Partition: 70000, Records: oddRecords(), Attempt: 300}
	frame, err := Append(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseFromSupervisor(frame[4:])
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %.300v\nwant %.300v", err, got, want)
	}
}

func TestR8_EmittedRecordsCrossUnchanged(t *testing.T) {
	want := oddRecords()
	size := 0
	for i := range want {
		want[i].Offset = 0
		size += want[i].Size()
	}
	want[1].Timestamp = record.Now
	frame, err := Append(nil, Emit{ID: 9, Outlet: "out", Records: EncodeRecords(want)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseFromProcess(frame[4:])
	if err != nil {
		t.Fatal(err)
	}
	e := m.(Emit)
	if e.Records.Len() != len(want) || e.Records.Bytes() != size {
		t.Errorf("%d records of %d bytes, want %d of %d", e.Records.Len(), e.Records.Bytes(), len(want), size)
	}
	if got := e.Records.Append(nil); !reflect.DeepEqual(got, want) {
		t.Errorf("got %.300v\nwant %.300v", got, want)
	}
	before := record.Record{Offset: 5}
	if got := e.Records.Append([]record.Record{before}); len(got) != len(want)+1 || !reflect.DeepEqual(got[0], before) || !reflect.DeepEqual(got[1:], want) {
		t.Error("Append to a list that has one is otherwise")
	}
}

// TestR8_ShortRecordsBetweenOthers: nil headers and missing elements end nothing.
func TestR8_ShortRecordsBetweenOthers(t *testing.T) {
	h := list{list{bin("n"), bin("v"), "extra"}}
	m, err := ParseFromProcess(body(t, "emit", 1, "o", list{list{bin("a"), nil, nil, 5}, list{bin("b"), nil, h, nil, "extra"}, list{}, list{bin("c"), bin("d"), h}}))
	if err != nil {
		t.Fatal(err)
	}
	header := record.Header{Name: bin("n"), Value: bin("v")}
	want := []record.Record{rec(bin("a"), nil, 5), rec(bin("b"), nil, record.Now, header), rec(nil, nil, record.Now), rec(bin("c"), bin("d"), record.Now, header)}
	if got := m.(Emit).Records.Append(nil); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestRecordSizeIsExact holds RecordSize against msgpack's own encoder.
func TestRecordSizeIsExact(t *testing.T) {
	for i, r := range oddRecords() {
		headers := make([]any, len(r.Headers))
		for j, h := range r.Headers {
			headers[j] = []any{h.Name, h.Value}
		}
		var out bytes.Buffer
		enc := msgpack.NewEncoder(&out)
		enc.UseCompactInts(true)
		if err := enc.Encode([]any{r.Offset, r.Timestamp, r.Key, r.Value, headers}); err != nil {
			t.Fatal(err)
		}
		if got := appendRecord(nil, &r); !bytes.Equal(got, out.Bytes()) || RecordSize(&r) != len(got) {
			t.Errorf("record %d: %d bytes, RecordSize says %d, msgpack %d", i, len(got), RecordSize(&r), out.Len())
		}
	}
	for shift := range 64 {
		for _, n := range []int64{1 << shift, 1<<shift - 1, -(1 << shift), -(1 << shift) - 1} {
			var out bytes.Buffer
			enc := msgpack.NewEncoder(&out)
			enc.UseCompactInts(true)
			if err := enc.EncodeInt(n); err != nil {
				t.Fatal(err)
			}
			if got := appendInt(nil, n); !bytes.Equal(got, out.Bytes()) || intSize(n) != len(got) {
				t.Errorf("%d: %x, msgpack writes %x", n, got, out.Bytes())
			}
		}
	}
}

func TestBatchEncoderIsAppendsTwin(t *testing.T) {
	want, err := Append([]byte("x"), Batch{ID: 3, Inlet: "in", Partition: 1, Records: oddRecords(), Attempt: 2})
	if err != nil {
		t.Fatal(err)
	}
	var e BatchEncoder
	for range 2 { // the second time the encoder is used again
		e.Begin([]byte("x"), 3, "in", 1)
		records := oddRecords()
		for i := range records {
			if fit := e.Append(&records[i]); fit != Fits {
				t.Fatal(fit)
			}
		}
		if e.Count() != len(records) {
			t.Errorf("count %d", e.Count())
		}
		if got := e.Finish(2); !bytes.Equal(got, want) {
			t.Error("the bytes differ")
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a batch without records was finished")
		}
	}()
	e.Begin(nil, 4, "in", 0)
	e.Finish(1)
}

// TestHotPathDoesNotAllocatePerRecord: as many allocations for 1,000 records as
// for one.
func TestHotPathDoesNotAllocatePerRecord(t *testing.T) {
	for _, headers := range []int{0, 2} {
		one, thousand := payload(1, headers), payload(1000, headers)
		for name, work := range map[string]func(p *hotPath){
			"encode": (*hotPath).encode, "parse": (*hotPath).parse, "append": (*hotPath).append,
		} {
			a := testing.AllocsPerRun(20, func() { work(one) })
			b := testing.AllocsPerRun(20, func() { work(thousand) })
			if b > a {
				t.Errorf("%s with %d headers: %v allocations for a record, %v for 1,000", name, headers, a, b)
			}
		}
	}
}

// hotPath is a batch and the emit that answers it, with the buffers that the
// driver keeps.
type hotPath struct {
	records []record.Record
	frame   []byte // a batch's buffer
	body    []byte // the emit
	raw     RawRecords
	out     []record.Record
}

func payload(n, headers int) *hotPath {
	p := &hotPath{}
	for i := range n {
		r := record.Record{Offset: int64(i) + 1e6, Timestamp: 1700000000000, Key: bin(fmt.Sprintf("cart-%05d", i)), Value: bin(strings.Repeat("v", 90))}
		for h := range headers {
			r.Headers = append(r.Headers, record.Header{Name: bin(fmt.Sprint("header-", h)), Value: bin("value")})
		}
		p.records = append(p.records, r)
	}
	emitted := append([]record.Record(nil), p.records...)
	for i := range emitted {
		emitted[i].Timestamp = record.Now
	}
	frame, _ := Append(nil, Emit{ID: 1, Outlet: "out", Records: EncodeRecords(emitted)})
	p.body = frame[4:]
	p.frame = make([]byte, 0, 2*len(frame)+1000)
	p.out = make([]record.Record, 0, n)
	p.parse()
	return p
}

func (p *hotPath) encode() {
	var e BatchEncoder
	e.Begin(p.frame[:0], 1, "in", 3)
	for i := range p.records {
		if e.Append(&p.records[i]) != Fits {
			panic("the benchmark's batch is too large")
		}
	}
	p.frame = e.Finish(1)
}

func (p *hotPath) parse() {
	m, err := ParseFromProcess(p.body)
	if err != nil {
		panic(err)
	}
	p.raw = m.(Emit).Records
}

func (p *hotPath) append() { p.out = p.raw.Append(p.out[:0]) }

// TestR10_HeldCountsWhatIsKept: structures and the whole frame, not only bytes.
func TestR10_HeldCountsWhatIsKept(t *testing.T) {
	if recordBytes != unsafe.Sizeof(record.Record{}) || headerBytes != unsafe.Sizeof(record.Header{}) {
		t.Errorf("a record has %d bytes, a header %d", unsafe.Sizeof(record.Record{}), unsafe.Sizeof(record.Header{}))
	}
	headers := make(list, 1000)
	for i := range headers {
		headers[i] = list{[]byte{}, nil}
	}
	b := body(t, "emit", 1, "o", list{list{nil, nil, headers}, list{}}, strings.Repeat("extra", 1000))
	m, err := ParseFromProcess(b)
	if err != nil {
		t.Fatal(err)
	}
	if r := m.(Emit).Records; r.Bytes() != 0 || r.Held() != len(b)+2*recordBytes+1000*headerBytes {
		t.Errorf("%d bytes, %d held", r.Bytes(), r.Held())
	}
}

// TestAppendGrowsAmortized: a thousand emits of one record each.
func TestAppendGrowsAmortized(t *testing.T) {
	one := payload(1, 0)
	var out []record.Record
	grown := testing.AllocsPerRun(1, func() {
		out = nil
		for range 1000 {
			out = one.raw.Append(out)
		}
	})
	if len(out) != 1000 || grown > 50 {
		t.Errorf("%d records, %v allocations", len(out), grown)
	}
}

func TestStopModeAndLevelNames(t *testing.T) {
	if Finish.String() != "finish" || Abandon.String() != "abandon" || LevelError.String() != "error" || LevelDebug.String() != "debug" {
		t.Error("names")
	}
}

func TestStatusFarAhead(t *testing.T) {
	m, err := ParseFromProcess(body(t, "status", 1, map[string]any{"next_attempt_ms": MaxInteger}))
	if err != nil || m.(Status).NextAttempt <= 0 {
		t.Errorf("%v, %v", m, err)
	}
}
