package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ankka-flow/delivery/record"
)

// ParseFromProcess reads a frame's body as a message of the process. Every error
// is a *Violation. The message aliases body.
func ParseFromProcess(body []byte) (Message, error) {
	return parse(body, "process", processKinds[:], (*cursor).fromProcess)
}

// ParseFromSupervisor reads a frame's body as a message of the supervisor: what a
// process written in Go does, and the tests. Every error is a *Violation. The
// message aliases body.
func ParseFromSupervisor(body []byte) (Message, error) {
	return parse(body, "supervisor", supervisorKinds[:], (*cursor).fromSupervisor)
}

var (
	processKinds = [...]string{
		KindSpec, KindEmit, KindForward, KindAck, KindFail, KindStatus, KindReport, KindLog, KindPong, KindStopped,
	}
	supervisorKinds = [...]string{
		KindDiscover, KindRefuse, KindStart, KindBatch, KindRevoke, KindPing, KindStop,
	}
)

// parse reads the message's array: its kind, its elements by the sender's
// parser, which says how many it knows, and what a later minor version added.
func parse(body []byte, sender string, kinds []string, elements func(*cursor, int) (Message, int)) (Message, error) {
	c := &cursor{b: body}
	if len(body) == 0 {
		c.fail(CodeEmptyFrame)
		return nil, c.err
	}
	if t := typeName(body[0]); t != "array" {
		c.fail(CodeNotArray, "GOT", article(t), "TEXT", quote(body))
		return nil, c.err
	}
	c.at("the message")
	n := c.arrayLen("array")
	c.at("the kind")
	if n == 0 && c.err == nil {
		c.bad("the first element of the array", "left out")
	}
	kind := c.strBytes()
	if c.err != nil {
		return nil, c.err
	}
	for _, k := range kinds {
		if string(kind) == k {
			c.kind = k
		}
	}
	if c.kind == "" {
		c.place = ""
		c.fail(CodeUnknownKind, "TEXT", quote(kind), "SENDER", sender, "KINDS", strings.Join(kinds, ", "))
		return nil, c.err
	}
	m, known := elements(c, n-1)
	c.at("an extra element")
	c.extra(1, n-1-known)
	if rest := len(body) - c.off; rest > 0 {
		c.fail(CodeTrailingBytes, "COUNT", strconv.Itoa(rest))
	}
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

// article is a type's name with its article.
func article(name string) string {
	switch name[0] {
	case 'a', 'i', 'e':
		return "an " + name
	case 'n':
		return name
	}
	return "a " + name
}

// fromProcess reads the elements behind the kind, of which there are n.
func (c *cursor) fromProcess(n int) (Message, int) {
	switch c.kind {
	case KindSpec:
		return c.spec(n), 2
	case KindEmit:
		return c.emit(n), 3
	case KindForward:
		return c.forward(n), 3
	case KindAck:
		return Ack{ID: c.batchID(n)}, 1
	case KindFail:
		return c.failure(n), 2
	case KindStatus:
		return c.status(n), 2
	case KindReport:
		return c.report(n), 2
	case KindLog:
		return c.log(n), 3
	case KindPong:
		c.need(n, 1, "n")
		return Pong{N: c.natural()}, 1
	}
	return Stopped{}, 0
}

// need sets the place of element i of the n behind the kind, and says whether it
// is there. A missing one is nil, and its reader is not called where nil may be;
// where nil may not be, the violation says what is missing.
func (c *cursor) need(n, i int, name string) {
	c.at(name)
	if n < i {
		c.fail(CodeWrongType, "WANT", "given", "GOT", "nothing: the message ends before it")
	}
}

// given says whether element i of n is there and not nil, and sets its place.
func (c *cursor) given(n, i int, name string) bool {
	c.at(name)
	return n >= i && !c.isNil()
}

// batchID reads the message's first element, the batch it speaks of, which later
// violations then name.
func (c *cursor) batchID(n int) uint64 {
	c.need(n, 1, "id")
	id := c.natural()
	if c.err == nil {
		c.id, c.hasID = id, true
	}
	return id
}

// each calls field for every key of a map that is already known to come, with
// the place set to prefix and the key. field reads the value and returns true,
// or returns false for a key it does not know, whose value is passed over. A nil
// value is as good as none.
func (c *cursor) each(level int, prefix string, field func(key string) bool) {
	for n := c.mapLen(); n > 0 && c.err == nil; n-- {
		c.at(prefix + " (a key)")
		key := string(c.strBytes())
		if c.isNil() || c.err != nil {
			continue
		}
		c.at(prefix + "." + key)
		if !field(key) {
			c.at(prefix + "[$]")
			c.name = key
			c.extra(level, 1)
		}
	}
}

func (c *cursor) spec(n int) Spec {
	s := Spec{Capabilities: DefaultCapabilities()}
	c.need(n, 1, "descriptor")
	if c.err == nil && c.code() == 0xc0 {
		c.wrong("map")
	}
	c.descriptor(&s.Descriptor)
	if !c.given(n, 2, "capabilities") {
		return s
	}
	c.each(2, "capabilities", func(key string) bool {
		switch key {
		case "ping":
			s.Capabilities.Ping = c.boolOrNil()
		case "max_in_flight":
			s.Capabilities.MaxInFlight = int(c.naturalUpTo(math.MaxInt32))
			if s.Capabilities.MaxInFlight == 0 {
				c.bad("1 or more", "0")
			}
		case "errors":
			s.Capabilities.Errors = c.boolOrNil()
		default:
			return false
		}
		return true
	})
	return s
}

func (c *cursor) emit(n int) Emit {
	e := Emit{ID: c.batchID(n)}
	c.need(n, 2, "outlet")
	e.Outlet = c.str()
	if n >= 3 {
		e.Records = c.checkEmitted(e.Outlet)
	}
	return e
}

func (c *cursor) forward(n int) Forward {
	f := Forward{ID: c.batchID(n)}
	c.need(n, 2, "outlet")
	f.Outlet = c.str()
	if !c.given(n, 3, "indexes") {
		f.All = true
		return f
	}
	count := c.arrayLen("array or nil")
	f.Indexes = make([]int, 0, count)
	c.at("indexes[#]")
	for c.i = 0; c.i < count && c.err == nil; c.i++ {
		// Whether the batch has it, its owner knows.
		f.Indexes = append(f.Indexes, int(min(c.natural(), math.MaxInt)))
	}
	return f
}

func (c *cursor) failure(n int) Fail {
	f := Fail{ID: c.batchID(n)}
	if !c.given(n, 2, "info") {
		return f
	}
	c.each(2, "info", func(key string) bool {
		switch key {
		case "message":
			f.Message = cut(c.str())
		case "offset":
			f.Offset, f.HasOffset = int64(c.natural()), true
		case "kind":
			f.KindName = cut(c.str())
		case "detail":
			f.Detail = cut(c.str())
		default:
			return false
		}
		return true
	})
	return f
}

// cutMark ends a text that was cut at MaxText.
const cutMark = " ... (cut at 65,536 bytes)"

// cut is text, within MaxText bytes: a longer one loses its end, at a rune's
// boundary, to cutMark.
func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	n := MaxText - len(cutMark)
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + cutMark
}

func (c *cursor) status(n int) Status {
	s := Status{ID: c.batchID(n)}
	if !c.given(n, 2, "info") {
		return s
	}
	c.each(2, "info", func(key string) bool {
		switch key {
		case "offset":
			s.Offset, s.HasOffset = int64(c.natural()), true
		case "attempt":
			s.Attempt = int(c.natural())
		case "waiting":
			s.Waiting = c.boolOrNil()
		case "next_attempt_ms":
			ms := min(c.natural(), math.MaxInt64/uint64(time.Millisecond))
			s.NextAttempt = time.Duration(ms) * time.Millisecond
		case "error":
			s.Error = cut(c.str())
		default:
			return false
		}
		return true
	})
	return s
}

func (c *cursor) report(n int) Report {
	var r Report
	if c.given(n, 1, "id") {
		r.ID, r.HasID = c.batchID(n), true
	}
	if !c.given(n, 2, "series") {
		return r
	}
	count := c.arrayLen("array")
	if count > MaxSeries {
		c.fail(CodeTooManySeries, "COUNT", strconv.Itoa(count))
		return r
	}
	r.Series = make([]Series, 0, count)
	for i := 0; i < count && c.err == nil; i++ {
		c.i = i
		r.Series = append(r.Series, c.series())
	}
	return r
}

// series reads one [name, kind, labels, number], all of which must be there but
// for labels, which may be nil.
func (c *cursor) series() Series {
	var s Series
	c.at("series[#]")
	n := c.arrayLen("array [name, kind, labels, number]")
	if n < 4 {
		if c.err == nil {
			c.bad("an array [name, kind, labels, number]", strconv.Itoa(n)+" elements")
		}
		return s
	}
	c.at("series[#].name")
	s.Name = c.str()
	c.at("series[#].kind")
	switch kind := c.str(); kind {
	case "gauge":
		s.Gauge = true
	case "counter":
	default:
		c.bad(`"counter" or "gauge"`, quote(kind))
	}
	c.at("series[#].labels")
	for k := c.mapLen(); k > 0 && c.err == nil; k-- {
		key := c.str()
		if c.isNil() { // as good as a missing key
			continue
		}
		if s.Labels == nil {
			s.Labels = make(map[string]string)
		}
		s.Labels[key] = c.str()
	}
	c.at("series[#].number")
	s.Value = c.number()
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		c.bad("a finite number", strconv.FormatFloat(s.Value, 'g', -1, 64))
	}
	if !s.Gauge && s.Value < 0 {
		c.bad("0 or more, for a counter's number is an increment", strconv.FormatFloat(s.Value, 'g', -1, 64))
	}
	c.extra(3, n-4)
	return s
}

func (c *cursor) log(n int) Log {
	l := Log{Level: LevelInfo}
	c.need(n, 1, "level")
	switch string(c.strBytes()) {
	case "debug":
		l.Level = LevelDebug
	case "warn":
		l.Level = LevelWarn
	case "error":
		l.Level = LevelError
	}
	c.need(n, 2, "message")
	l.Message = c.str()
	if c.given(n, 3, "fields") {
		l.Fields = c.scalars("fields[$]")
	}
	return l
}

// scalars reads a map of text to str, int, float or bool; keys whose value is
// nil are left out. place names a value, its key as $.
func (c *cursor) scalars(place string) map[string]any {
	n := c.mapLen()
	m := make(map[string]any, min(n, 64))
	for ; n > 0 && c.err == nil; n-- {
		key := c.str()
		c.at(place)
		if c.name = key; !c.isNil() {
			m[key] = c.scalar()
		}
	}
	return m
}

// textsByName reads a map of text to text.
func (c *cursor) textsByName(place string) map[string]string {
	n := c.mapLen()
	m := make(map[string]string, min(n, 64))
	for ; n > 0 && c.err == nil; n-- {
		key := c.str()
		c.at(place)
		if c.name = key; !c.isNil() {
			m[key] = c.str()
		}
	}
	return m
}

// fromSupervisor reads the elements behind the kind, of which there are n.
func (c *cursor) fromSupervisor(n int) (Message, int) {
	switch c.kind {
	case KindDiscover:
		return c.discover(n), 1
	case KindRefuse:
		var r Refuse
		if c.given(n, 1, "problems") {
			r.Problems = c.texts("problems[#]")
		}
		return r, 1
	case KindStart:
		return c.start(n), 1
	case KindBatch:
		return c.batch(n), 5
	case KindRevoke:
		return Revoke{ID: c.batchID(n)}, 1
	case KindPing:
		c.need(n, 1, "n")
		return Ping{N: c.natural()}, 1
	}
	return c.stop(n), 1
}

// texts reads an array of texts.
func (c *cursor) texts(place string) []string {
	n := c.arrayLen("array")
	var out []string
	c.at(place)
	for c.i = 0; c.i < n && c.err == nil; c.i++ {
		out = append(out, c.str())
	}
	return out
}

func (c *cursor) discover(n int) Discover {
	var d Discover
	if !c.given(n, 1, "info") {
		return d
	}
	c.each(2, "info", func(key string) bool {
		switch key {
		case "protocol":
			d.Protocol = c.str()
		case "supervisor":
			d.Supervisor = c.str()
		case "max_frame_bytes":
			d.MaxFrameBytes = int(c.natural())
		case "max_record_bytes":
			d.MaxRecordBytes = int(c.natural())
		default:
			return false
		}
		return true
	})
	return d
}

func (c *cursor) start(n int) Start {
	var s Start
	if !c.given(n, 1, "info") {
		return s
	}
	c.each(2, "info", func(key string) bool {
		switch key {
		case "conversation":
			s.Conversation = c.natural()
		case "instance":
			s.Instance = int(c.natural())
		case "pipeline":
			s.Pipeline = c.str()
		case "streamlet":
			s.Streamlet = c.str()
		case "config":
			s.Config = c.scalars("info.config[$]")
		case "errors":
			s.Errors = c.textsByName("info.errors[$]")
		case "inlets":
			s.Inlets = c.textsByName("info.inlets[$]")
		case "outlets":
			s.Outlets = c.textsByName("info.outlets[$]")
		default:
			return false
		}
		return true
	})
	return s
}

func (c *cursor) stop(n int) Stop {
	var s Stop
	if !c.given(n, 1, "info") {
		return s
	}
	c.each(2, "info", func(key string) bool {
		switch key {
		case "mode":
			switch mode := c.str(); mode {
			case "finish":
				s.Mode = Finish
			case "abandon":
				s.Mode = Abandon
			default:
				c.bad(`"finish" or "abandon"`, quote(mode))
			}
		case "reason":
			s.Reason = c.str()
		default:
			return false
		}
		return true
	})
	return s
}

func (c *cursor) batch(n int) Batch {
	b := Batch{ID: c.batchID(n)}
	c.need(n, 2, "inlet")
	b.Inlet = c.str()
	c.need(n, 3, "partition")
	b.Partition = int32(c.naturalUpTo(math.MaxInt32))
	c.need(n, 4, "records")
	count := c.arrayLen("array")
	if count == 0 && c.err == nil {
		c.bad("an array of at least one record", "empty")
	}
	// A record takes at least 6 bytes of the frame: no more of them are made.
	b.Records = make([]record.Record, 0, min(count, (len(c.b)-c.off)/6+1))
	var slab []record.Header
	for i := 0; i < count && c.err == nil; i++ {
		c.i = i
		b.Records = append(b.Records, record.Record{})
		slab = c.delivered(&b.Records[i], slab)
	}
	if c.given(n, 5, "info") {
		c.each(2, "info", func(key string) bool {
			if key == "attempt" {
				b.Attempt = int(c.natural())
				return true
			}
			return false
		})
	}
	return b
}

// delivered reads one record [offset, timestamp_ms, key, value, headers] of a
// batch, all five of which must be there. Its headers are cut from slab, and
// from new slabs when that is used up.
func (c *cursor) delivered(r *record.Record, slab []record.Header) []record.Header {
	c.at("records[#]")
	start := c.off
	n := c.arrayLen("array")
	if n < 5 && c.err == nil {
		c.bad("an array [offset, timestamp_ms, key, value, headers]", strconv.Itoa(n)+" elements")
	}
	c.at("records[#].offset")
	r.Offset = int64(c.natural())
	c.at("records[#].timestamp_ms")
	r.Timestamp = c.timestamp()
	c.at("records[#].key")
	r.Key = c.binOrNil()
	c.at("records[#].value")
	r.Value = c.binOrNil()
	c.at("records[#].headers")
	count := c.arrayLen("array")
	if count > cap(slab)-len(slab) {
		// A header takes at least 4 bytes of the frame.
		slab = make([]record.Header, 0, max(min(count, (len(c.b)-c.off)/4+1), 64))
	}
	first := len(slab)
	for c.j = 0; c.j < count && c.err == nil; c.j++ {
		name, value := c.header()
		slab = append(slab, record.Header{Name: name, Value: value})
	}
	if len(slab) > first {
		r.Headers = slab[first:len(slab):len(slab)]
	}
	c.extra(levelRecord, n-5)
	if size := c.off - start; size > MaxRecord && c.err == nil {
		c.at("records[#]")
		c.bad("at most 4128768 bytes as encoded", strconv.Itoa(size))
	}
	return slab
}
