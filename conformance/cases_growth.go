package conformance

import (
	"maps"
	"slices"

	"ankka-flow/wire"
)

// What a later minor version, or another encoder than ours, may send.
var growthCases = []Case{
	{
		Name: "stdio.unknown-keys-ignored", Section: sectionTypes,
		Sentence: "keys that the process does not know are ignored in every map, whatever their values",
		ask:      func(t *talk) { t.whole(encoding{keys: true}) },
	},
	{
		Name: "stdio.extra-elements-ignored", Section: sectionTypes,
		Sentence: "elements at the end of a message, a record or a header that the process does not know are ignored",
		ask:      func(t *talk) { t.whole(encoding{elements: true}) },
	},
	{
		Name: "stdio.wide-headers", Section: sectionFrames,
		Sentence: "lengths and integers that are wider than they need to be are read",
		ask:      func(t *talk) { t.whole(encoding{wide: true}) },
	},
	{
		Name: "stdio.key-twice", Section: sectionTypes,
		Sentence: "where a map has a key twice, the last one counts",
		ask: func(t *talk) {
			t.discover()
			info := t.startInfo(map[string]any{"factor": int64(9)})
			t.starts(encoding{twice: true}.start(info), info)
			t.multiplies(6, 54)
			t.judge.stop(wire.Finish)
			t.sendFrame(encoding{twice: true}.stop("finish"))
			t.stopped()
		},
	},
	{
		Name: "stdio.text-not-utf8", Section: sectionTypes,
		Sentence: "a text that is no UTF-8 is read with U+FFFD in its place, and harms nobody",
		ask: func(t *talk) {
			t.asks(encoding{text: "\xff\xfe"}.discover())
			info := t.startInfo(nil)
			t.starts(encoding{text: "\xc3"}.start(info), info)
			t.alive(0)
			t.judge.stop(wire.Finish)
			t.sendFrame(encoding{text: "no \x80 UTF-8"}.stop("finish"))
			t.stopped()
		},
	},
}

// whole has two conversations in which every message of the supervisor is encoded in that way.
func (t *talk) whole(e encoding) {
	for range 2 {
		t.asks(e.discover())
		info := t.startInfo(map[string]any{"factor": int64(5)})
		t.starts(e.start(info), info)
		b := t.prepare("in", 3, rec("echo", "a", header("h", "v"), header("i", "")), rec("header-echo", "b", header("h", "v")))
		t.deliver(b)
		t.sendFrame(e.batch(b))
		t.acked(b)
		t.emits(b, "out", b.records[0], withEcho(b.records[1]))
		if t.failure == nil && t.spec.Capabilities.Ping {
			n := uint64(77)
			t.pings = append(t.pings, n)
			t.sendFrame(e.numbered("ping", n))
			t.await("pong 77", func() bool { return !slices.Contains(t.pings, n) })
		}
		t.sendFrame(e.numbered("revoke", b.id)) // it was answered: ignored
		t.multiplies(6, 30)
		t.judge.stop(wire.Finish)
		t.sendFrame(e.stop("finish"))
		t.stopped()
	}
}

// encoding is a way to write the supervisor's messages that is right, and not ours.
type encoding struct {
	keys     bool // that nobody knows, in every map
	elements bool // that nobody knows, behind every array
	wide     bool // every header and integer in its widest form
	twice    bool // every key of a map before, with a value of its type that must not count
	text     string
}

// message begins the array of a message of n elements, which end writes what is behind of.
func (e encoding) message(kind string, n int) *pack {
	p := &pack{wide: e.wide}
	if e.elements {
		n++
	}
	return p.array(n).str(kind)
}

func (e encoding) end(p *pack) []byte {
	if e.elements {
		p.known(2)
	}
	return p.frame()
}

// entry is a key and how its value is written; decoy, where a key comes twice, comes first.
type entry struct {
	key          string
	value, decoy func(*pack)
}

func text(key, value string) entry {
	return entry{key, func(p *pack) { p.str(value) }, func(p *pack) { p.str("must not count") }}
}

func integer(key string, value int64) entry {
	return entry{key, func(p *pack) { p.integer(value) }, func(p *pack) { p.integer(0) }}
}

// mapAt writes a map that stands at depth.
func (e encoding) mapAt(p *pack, depth int, entries ...entry) {
	n := len(entries)
	if e.twice {
		n *= 2
	}
	if e.keys {
		n += 2
	}
	p.mapOf(n)
	if e.keys {
		p.str("a-key-of-a-later-minor").known(depth + 1)
	}
	if e.twice {
		for _, at := range entries {
			p.str(at.key)
			at.decoy(p)
		}
	}
	for _, at := range entries {
		p.str(at.key)
		at.value(p)
	}
	if e.keys {
		p.str("").null()
	}
}

func (e encoding) discover() []byte {
	p := e.message("discover", 2)
	e.mapAt(p, 2, text("protocol", wire.Version), text("supervisor", "conformance"+e.text),
		integer("max_frame_bytes", wire.MaxFrame), integer("max_record_bytes", wire.MaxRecord))
	return e.end(p)
}

func (e encoding) start(info wire.Start) []byte {
	p := e.message("start", 2)
	config := []entry{text("mode", info.Config["mode"].(string)), integer("factor", info.Config["factor"].(int64))}
	names := func(of map[string]string) entry {
		var entries []entry
		for _, port := range slices.Sorted(maps.Keys(of)) {
			entries = append(entries, text(port, of[port]))
		}
		// Their keys are names, so nobody knows more of them.
		value := func(p *pack) { encoding{wide: e.wide}.mapAt(p, 3, entries...) }
		return entry{value: value, decoy: func(p *pack) { p.mapOf(0) }}
	}
	inlets, outlets, errors := names(info.Inlets), names(info.Outlets), names(nil)
	inlets.key, outlets.key, errors.key = "inlets", "outlets", "errors"
	e.mapAt(p, 2, integer("conversation", int64(info.Conversation)), integer("instance", 0), text("pipeline", "conformance"+e.text), text("streamlet", referenceName),
		entry{"config", func(p *pack) { encoding{wide: e.wide, twice: e.twice}.mapAt(p, 3, config...) }, func(p *pack) { p.mapOf(0) }},
		errors, inlets, outlets)
	return e.end(p)
}

func (e encoding) batch(b *batch) []byte {
	p := e.message("batch", 6)
	p.integer(int64(b.id)).str(b.inlet).integer(int64(b.partition)).array(len(b.records))
	for i := range b.records {
		p.record(&b.records[i], e.elements)
	}
	e.mapAt(p, 2, integer("attempt", 1))
	return e.end(p)
}

func (e encoding) stop(mode string) []byte {
	p := e.message("stop", 2)
	other := func(p *pack) { p.str("abandon") }
	e.mapAt(p, 2, entry{"mode", func(p *pack) { p.str(mode) }, other}, text("reason", "the case wants it"+e.text))
	return e.end(p)
}

// numbered is a revoke or a ping.
func (e encoding) numbered(kind string, n uint64) []byte {
	return e.end(e.message(kind, 2).integer(int64(n)))
}
