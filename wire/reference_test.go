package wire

import (
	"encoding/binary"
	"math"
	"time"

	"ankka-flow/delivery/record"
)

// A second reading of PROTOCOL.md, as plain as it can be: a tree of values first,
// then the message out of it. It knows no texts of violations, only whether what
// came is a message. The fuzzers hold the parser against it.

// A tree is a msgpack value: nil, bool, int64, float64, refText, refBytes, []any or
// refMap.
type (
	refText  string // raw, perhaps not UTF-8
	refBytes []byte
	refMap   []refPair
	refPair  struct {
		key   string
		value any
	}
)

// refused is the panic of a value that may not be.
type refused struct{}

func refuse() { panic(refused{}) }

// reference is the message that a body is, or nil where it is none.
func reference(body []byte, supervisor bool) (m Message) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refused:
			m = nil
		default:
			panic(r)
		}
	}()
	d := &refDecoder{b: body}
	all, ok := d.value(1).([]any)
	if !ok || len(d.b) > 0 || len(all) == 0 {
		refuse()
	}
	kind, ok := all[0].(refText)
	if !ok {
		refuse()
	}
	e := refElements(all[1:])
	if supervisor {
		return e.fromSupervisor(string(kind))
	}
	return e.fromProcess(string(kind))
}

type refDecoder struct{ b []byte }

func (d *refDecoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		refuse()
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *refDecoder) number(width int) uint64 {
	return binary.BigEndian.Uint64(append(make([]byte, 8-width), d.take(uint64(width))...))
}

// value is the next value, a container of which is at that level.
func (d *refDecoder) value(level int) any {
	b := d.take(1)[0]
	switch {
	case b < 0x80:
		return int64(b)
	case b < 0x90:
		return d.pairs(uint64(b&0xf), level)
	case b < 0xa0:
		return d.array(uint64(b&0xf), level)
	case b < 0xc0:
		return refText(d.take(uint64(b & 0x1f)))
	case b >= 0xe0:
		return int64(int8(b))
	}
	switch b {
	case 0xc0:
		return nil
	case 0xc2, 0xc3:
		return b == 0xc3
	case 0xc4, 0xc5, 0xc6:
		return refBytes(append([]byte{}, d.take(d.number(1<<(b-0xc4)))...))
	case 0xca:
		return float64(math.Float32frombits(uint32(d.number(4))))
	case 0xcb:
		return math.Float64frombits(d.number(8))
	case 0xcc, 0xcd, 0xce, 0xcf:
		if n := d.number(1 << (b - 0xcc)); n <= MaxInteger {
			return int64(n)
		}
	case 0xd0, 0xd1, 0xd2, 0xd3:
		width := 1 << (b - 0xd0)
		if n := int64(d.number(width)<<(64-8*width)) >> (64 - 8*width); n >= -MaxInteger && n <= MaxInteger {
			return n
		}
	case 0xd9, 0xda, 0xdb:
		return refText(d.take(d.number(1 << (b - 0xd9))))
	case 0xdc, 0xdd:
		return d.array(d.number(2<<(b-0xdc)), level)
	case 0xde, 0xdf:
		return d.pairs(d.number(2<<(b-0xde)), level)
	}
	refuse() // an extension, 0xc1, or an integer that is too large
	return nil
}

func (d *refDecoder) array(n uint64, level int) any {
	if n > uint64(len(d.b)) || level > MaxDepth {
		refuse()
	}
	out := make([]any, 0, n)
	for range n {
		out = append(out, d.value(level+1))
	}
	return out
}

func (d *refDecoder) pairs(n uint64, level int) any {
	if n > uint64(len(d.b)) || level > MaxDepth {
		refuse()
	}
	out := make(refMap, 0, n)
	for range n {
		key, ok := d.value(level + 1).(refText)
		if !ok {
			refuse()
		}
		if value := d.value(level + 1); value != nil { // as good as missing
			out = append(out, refPair{string(key), value})
		}
	}
	return out
}

// refElements are a message's behind its kind.
type refElements []any

// at is element i, nil where it is missing.
func (e refElements) at(i int) any {
	if i < len(e) {
		return e[i]
	}
	return nil
}

// refAs is v as a T, which it must be.
func refAs[T any](v any) T {
	t, ok := v.(T)
	if !ok {
		refuse()
	}
	return t
}

// refNatural is v as an integer from 0 on.
func refNatural(v any) int64 {
	n := refAs[int64](v)
	if n < 0 {
		refuse()
	}
	return n
}

func refString(v any) string { return utf8Text(string(refAs[refText](v))) }

// each reads every pair with the reader of its key: of a key that comes twice the
// last value counts, and the first must be as good.
func (m refMap) each(readers map[string]func(any)) {
	for _, p := range m {
		if read := readers[p.key]; read != nil {
			read(p.value)
		}
	}
}

// info is element i as a map, empty where it is nil.
func (e refElements) info(i int) refMap {
	if e.at(i) == nil {
		return nil
	}
	return refAs[refMap](e.at(i))
}

func intoText(to *string) func(any) { return func(v any) { *to = refString(v) } }
func intoBool(to *bool) func(any)   { return func(v any) { *to = refAs[bool](v) } }
func intoCut(to *string) func(any)  { return func(v any) { *to = cut(refString(v)) } }
func intoNatural(to *int) func(any) { return func(v any) { *to = int(refNatural(v)) } }
func intoOffset(to *int64, has *bool) func(any) {
	return func(v any) { *to, *has = refNatural(v), true }
}

func (e refElements) fromProcess(kind string) Message {
	switch kind {
	case KindSpec:
		return e.spec()
	case KindEmit:
		return e.emit()
	case KindForward:
		return e.forward()
	case KindAck:
		return Ack{ID: uint64(refNatural(e.at(0)))}
	case KindFail:
		f := Fail{ID: uint64(refNatural(e.at(0)))}
		e.info(1).each(map[string]func(any){"message": intoCut(&f.Message), "kind": intoCut(&f.KindName), "detail": intoCut(&f.Detail),
			"offset": intoOffset(&f.Offset, &f.HasOffset)})
		return f
	case KindStatus:
		s := Status{ID: uint64(refNatural(e.at(0)))}
		e.info(1).each(map[string]func(any){"offset": intoOffset(&s.Offset, &s.HasOffset), "attempt": intoNatural(&s.Attempt), "waiting": intoBool(&s.Waiting),
			"error": intoCut(&s.Error),
			"next_attempt_ms": func(v any) {
				s.NextAttempt = time.Duration(min(refNatural(v), math.MaxInt64/1_000_000)) * time.Millisecond
			}})
		return s
	case KindReport:
		return e.report()
	case KindLog:
		l := Log{Level: LevelInfo, Message: refString(e.at(1))}
		for _, level := range []Level{LevelDebug, LevelWarn, LevelError} {
			if string(refAs[refText](e.at(0))) == level.String() {
				l.Level = level
			}
		}
		if e.at(2) != nil {
			l.Fields = refScalars(e.info(2))
		}
		return l
	case KindPong:
		return Pong{N: uint64(refNatural(e.at(0)))}
	case KindStopped:
		return Stopped{}
	}
	return nil
}

func refScalars(m refMap) map[string]any {
	out := map[string]any{}
	for _, p := range m {
		key := utf8Text(p.key)
		switch v := p.value.(type) {
		case refText:
			out[key] = refString(v)
		case bool, int64, float64:
			out[key] = v
		default:
			refuse()
		}
	}
	return out
}

func refTexts(m refMap) map[string]string {
	out := map[string]string{}
	for _, p := range m {
		out[utf8Text(p.key)] = refString(p.value)
	}
	return out
}

func (e refElements) spec() Message {
	s := Spec{Capabilities: DefaultCapabilities()}
	d := &s.Descriptor
	refAs[refMap](e.at(0)).each(map[string]func(any){
		"protocol_version": intoText(&d.ProtocolVersion),
		"sdk": func(v any) {
			d.SDK = SDK{}
			refAs[refMap](v).each(map[string]func(any){"name": intoText(&d.SDK.Name), "version": intoText(&d.SDK.Version)})
		},
		"streamlet": func(v any) { d.Streamlet = refStreamlet(refAs[refMap](v)) },
	})
	e.info(1).each(map[string]func(any){"ping": intoBool(&s.Capabilities.Ping), "errors": intoBool(&s.Capabilities.Errors), "max_in_flight": func(v any) {
		n := refNatural(v)
		if n < 1 || n > math.MaxInt32 {
			refuse()
		}
		s.Capabilities.MaxInFlight = int(n)
	}})
	return s
}

func refStreamlet(m refMap) (s Streamlet) {
	ports := func(to *[]Port) func(any) {
		return func(v any) {
			*to = nil
			for _, one := range refAs[[]any](v) {
				var p Port
				refMapOrNil(one).each(map[string]func(any){"name": intoText(&p.Name), "contract": func(v any) {
					p.Contract = Contract{}
					refAs[refMap](v).each(map[string]func(any){"format": intoText(&p.Contract.Format), "schema_name": intoText(&p.Contract.SchemaName),
						"fingerprint": intoText(&p.Contract.Fingerprint)})
				}})
				*to = append(*to, p)
			}
		}
	}
	m.each(map[string]func(any){"name": intoText(&s.Name), "description": intoText(&s.Description), "inlets": ports(&s.Inlets), "outlets": ports(&s.Outlets),
		"config_parameters": func(v any) {
			s.Parameters = nil
			for _, one := range refAs[[]any](v) {
				var p Parameter
				refMapOrNil(one).each(map[string]func(any){"key": intoText(&p.Key), "description": intoText(&p.Description), "type": intoText(&p.Type),
					"default_value": intoText(&p.Default)})
				if p.Type == TypeString {
					p.Type = ""
				}
				s.Parameters = append(s.Parameters, p)
			}
		}})
	return s
}

func refMapOrNil(v any) refMap {
	if v == nil {
		return nil
	}
	return refAs[refMap](v)
}

// refBin is v as bytes, nil for nil.
func refBin(v any) []byte {
	if v == nil {
		return nil
	}
	return refAs[refBytes](v)
}

func refHeaders(v any) (out []record.Header) {
	for _, one := range refAs[[]any](v) {
		h := refAs[[]any](one)
		if len(h) < 2 {
			refuse()
		}
		out = append(out, record.Header{Name: refAs[refBytes](h[0]), Value: refBin(h[1])})
	}
	return out
}

func refTimestamp(v any) int64 {
	n := refAs[int64](v)
	if n < -1 {
		refuse()
	}
	return n
}

// refEmit has an emit's records as such.
type refEmit struct {
	Emit
	records []record.Record
}

func (e refElements) emit() Message {
	m := refEmit{Emit: Emit{ID: uint64(refNatural(e.at(0))), Outlet: refString(e.at(1))}}
	if e.at(2) == nil {
		return m
	}
	for _, one := range refAs[[]any](e.at(2)) {
		fields := refElements(refAs[[]any](one))
		r := record.Record{Key: refBin(fields.at(0)), Value: refBin(fields.at(1)), Timestamp: record.Now}
		if fields.at(2) != nil {
			r.Headers = refHeaders(fields.at(2))
		}
		if fields.at(3) != nil {
			r.Timestamp = refTimestamp(fields.at(3))
		}
		m.records = append(m.records, r)
	}
	return m
}

func (e refElements) forward() Message {
	f := Forward{ID: uint64(refNatural(e.at(0))), Outlet: refString(e.at(1)), All: e.at(2) == nil}
	if f.All {
		return f
	}
	f.Indexes = []int{}
	for _, i := range refAs[[]any](e.at(2)) {
		f.Indexes = append(f.Indexes, int(refNatural(i)))
	}
	return f
}

func (e refElements) report() Message {
	var r Report
	if e.at(0) != nil {
		r.ID, r.HasID = uint64(refNatural(e.at(0))), true
	}
	if e.at(1) == nil {
		return r
	}
	r.Series = []Series{}
	for _, one := range refAs[[]any](e.at(1)) {
		v := refAs[[]any](one)
		if len(v) < 4 || len(r.Series) == MaxSeries {
			refuse()
		}
		s := Series{Name: refString(v[0])}
		switch string(refAs[refText](v[1])) {
		case "gauge":
			s.Gauge = true
		case "counter":
		default:
			refuse()
		}
		if labels := refTexts(refMapOrNil(v[2])); len(labels) > 0 {
			s.Labels = labels
		}
		switch n := v[3].(type) {
		case int64:
			s.Value = float64(n)
		default:
			s.Value = refAs[float64](n)
		}
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || !s.Gauge && s.Value < 0 {
			refuse()
		}
		r.Series = append(r.Series, s)
	}
	return r
}

func (e refElements) fromSupervisor(kind string) Message {
	switch kind {
	case KindDiscover:
		var d Discover
		e.info(0).each(map[string]func(any){"protocol": intoText(&d.Protocol), "supervisor": intoText(&d.Supervisor),
			"max_frame_bytes": intoNatural(&d.MaxFrameBytes), "max_record_bytes": intoNatural(&d.MaxRecordBytes)})
		return d
	case KindRefuse:
		var r Refuse
		if e.at(0) != nil {
			for _, p := range refAs[[]any](e.at(0)) {
				r.Problems = append(r.Problems, refString(p))
			}
		}
		return r
	case KindStart:
		var s Start
		texts := func(to *map[string]string) func(any) {
			return func(v any) { *to = refTexts(refAs[refMap](v)) }
		}
		e.info(0).each(map[string]func(any){"conversation": func(v any) { s.Conversation = uint64(refNatural(v)) }, "instance": intoNatural(&s.Instance),
			"pipeline": intoText(&s.Pipeline), "streamlet": intoText(&s.Streamlet), "config": func(v any) { s.Config = refScalars(refAs[refMap](v)) },
			"errors": texts(&s.Errors), "inlets": texts(&s.Inlets), "outlets": texts(&s.Outlets)})
		return s
	case KindBatch:
		return e.batch()
	case KindRevoke:
		return Revoke{ID: uint64(refNatural(e.at(0)))}
	case KindPing:
		return Ping{N: uint64(refNatural(e.at(0)))}
	case KindStop:
		var s Stop
		e.info(0).each(map[string]func(any){"reason": intoText(&s.Reason), "mode": func(v any) {
			switch mode := refString(v); mode {
			case "finish":
				s.Mode = Finish
			case "abandon":
				s.Mode = Abandon
			default:
				refuse()
			}
		}})
		return s
	}
	return nil
}

func (e refElements) batch() Message {
	b := Batch{ID: uint64(refNatural(e.at(0))), Inlet: refString(e.at(1))}
	partition := refNatural(e.at(2))
	if partition > math.MaxInt32 {
		refuse()
	}
	b.Partition = int32(partition)
	records := refAs[[]any](e.at(3))
	if len(records) == 0 {
		refuse()
	}
	for _, one := range records {
		r := refAs[[]any](one)
		if len(r) < 5 {
			refuse()
		}
		b.Records = append(b.Records, record.Record{Offset: refNatural(r[0]), Timestamp: refTimestamp(r[1]), Key: refBin(r[2]), Value: refBin(r[3]), Headers: refHeaders(r[4])})
	}
	e.info(4).each(map[string]func(any){"attempt": intoNatural(&b.Attempt)})
	return b
}
