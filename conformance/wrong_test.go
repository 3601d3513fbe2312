package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sys/unix"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// The wrong process: the reference streamlet once more, with a switch for every fault that the
// suite has to find. It is this test's own binary. Without a fault it passes every case.
//
// A fault that would leave the suite waiting exits with 99 instead, where that shows the same
// mistake: the tests of what the suite says of silence are others.

// fault is the switch.
type fault string

func (f fault) is(names ...fault) bool {
	for _, name := range names {
		if f == name {
			return true
		}
	}
	return false
}

// hangs is what a process does that waits for ever, in less time.
func hangs() { os.Exit(99) }

type wrong struct {
	fault
	out       *wrongOutbox
	in        io.Reader
	protocols [2]*os.File // its stdin and stdout, for what a fault hands on

	mu         sync.Mutex
	owed       map[uint64]*wrongBatch
	answered   map[uint64]bool
	started    bool
	running    bool
	finishing  bool
	stoppedYet bool
	specs      int
	frames     int
	lastSize   int
	lastID     uint64
	config     map[string]any
	errors     []string // what a fault keeps back of stderr
}

type wrongBatch struct {
	wire.Batch
	config map[string]any
	void   bool
}

func wrongMain(name string) {
	f := fault(name)
	if os.Getenv(protocolVariable) == "" {
		if f.is("by-hand-without-a-word") {
			os.Exit(1)
		}
		if f.is("by-hand-goes-on") {
			select {}
		}
		fmt.Fprintln(os.Stderr, "a streamlet; run it so: ankka-flow run -- ...")
		os.Exit(2)
	}
	if !f.is("variable-stays") {
		os.Unsetenv(protocolVariable)
	}
	w := &wrong{fault: f, owed: map[uint64]*wrongBatch{}, answered: map[uint64]bool{}}
	for fd := range w.protocols {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			panic(err)
		}
		w.protocols[fd] = os.NewFile(uintptr(n), "protocol")
	}
	nothing, _ := os.Open(os.DevNull)
	_ = unix.Dup2(int(nothing.Fd()), 0)
	if !f.is("stdout-stays") {
		_ = unix.Dup2(2, 1)
	}
	w.in = bufio.NewReaderSize(w.protocols[0], 1<<16)
	w.out = &wrongOutbox{wrong: w}
	w.out.changed = sync.NewCond(&w.out.mu)
	go w.out.write()
	for {
		body, ok := w.read()
		if !ok {
			w.end()
		}
		w.receive(body)
	}
}

// read is the next frame's body; false at the end of the input.
func (w *wrong) read() ([]byte, bool) {
	length, n := make([]byte, 4), 0
	if w.is("length-in-one-read") && w.lastSize < 1<<15 { // behind a long one any length may be cut
		n, _ = w.in.Read(length)
	} else {
		n, _ = io.ReadFull(w.in, length)
	}
	if n == 0 {
		return nil, false
	}
	size := int(binary.BigEndian.Uint32(length))
	if n < 4 || w.is("frames-below-4-MB") && size > 4_100_000 || w.is("frames-below-the-limit") && size >= wire.MaxFrame {
		hangs()
	}
	w.lastSize = size
	body := make([]byte, size)
	if w.is("body-in-one-read") {
		if n, _ := w.in.Read(body); n < size {
			hangs()
		}
	} else if _, err := io.ReadFull(w.in, body); err != nil {
		return nil, false
	}
	if w.frames++; w.is("five-hundred-frames") && w.frames > 500 {
		hangs()
	}
	return body, true
}

// end is the end of the input.
func (w *wrong) end() {
	w.mu.Lock()
	busy, computing := false, false
	for _, b := range w.owed {
		busy = true
		computing = computing || string(b.Records[len(b.Records)-1].Key) == "busy"
	}
	state, code := "idle", 0
	switch {
	case computing:
		state, code = "computing", 1
	case busy && w.stoppedYet && !w.running:
		state, code = "abandoned", 1
	case busy && w.finishing:
		state, code = "finishing", 1
	case busy:
		state, code = "busy", 1
	case w.specs == 0:
		state = "new"
	case !w.started:
		state = "ready"
	case !w.running:
		state = "stopped"
	}
	if w.is(fault("wrong-exit-" + state)) {
		code = 1 - code
	}
	if w.is("half-a-frame-at-the-end") {
		_, _ = w.protocols[1].Write([]byte{0, 0})
	}
	os.Exit(code)
}

// send queues a message.
func (w *wrong) send(m wire.Message) {
	if w.is("ids-of-32-bits") {
		switch n := m.(type) {
		case wire.Ack:
			m = wire.Ack{ID: n.ID & (1<<32 - 1)}
		case wire.Emit:
			n.ID &= 1<<32 - 1
			m = n
		case wire.Forward:
			n.ID &= 1<<32 - 1
			m = n
		}
	}
	w.out.put(encoded(m), m.Kind() == wire.KindPong)
}

// wrongOutbox is the frames that are not written.
type wrongOutbox struct {
	*wrong
	mu      sync.Mutex
	changed *sync.Cond
	frames  [][]byte
	bytes   int
	busy    bool
}

func (o *wrongOutbox) put(frame []byte, ahead bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ahead {
		o.frames = append([][]byte{frame}, o.frames...)
	} else {
		o.frames = append(o.frames, frame)
	}
	o.bytes += len(frame)
	o.changed.Broadcast()
}

func (o *wrongOutbox) write() {
	for {
		o.mu.Lock()
		o.busy = false
		o.changed.Broadcast()
		for len(o.frames) == 0 {
			o.changed.Wait()
		}
		frame := o.frames[0]
		o.frames, o.busy = o.frames[1:], true
		o.mu.Unlock()
		if o.is("one-lock-for-all") {
			o.wrong.mu.Lock()
		}
		_, _ = o.protocols[1].Write(frame)
		if o.is("one-lock-for-all") {
			o.wrong.mu.Unlock()
		}
		o.mu.Lock()
		o.bytes -= len(frame)
		o.mu.Unlock()
	}
}

// drain waits until everything is written.
func (o *wrongOutbox) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy || len(o.frames) > 0 {
		if o.is("exits-when-the-pipe-is-full") && o.bytes > 1<<20 {
			return
		}
		o.changed.Wait()
	}
}

// judgeBody is the faults that look at bytes: those of a decoder that is too strict.
func (w *wrong) judgeBody(body []byte) {
	var message []any
	if err := msgpack.Unmarshal(body, &message); err != nil {
		panic(err)
	}
	lengths := map[string]int{"discover": 2, "start": 2, "batch": 6, "stop": 2, "ping": 2, "revoke": 2, "refuse": 2}
	switch {
	case w.is("no-extra-elements") && len(message) != lengths[message[0].(string)],
		w.is("narrow-headers-only") && body[0] == 0xdd:
		hangs()
	}
	info, _ := message[len(message)-1].(map[string]any)
	for key, value := range info {
		text, _ := value.(string)
		if w.is("no-unknown-keys") && key == "a-key-of-a-later-minor" || w.is("strict-text") && !utf8.ValidString(text) {
			hangs()
		}
	}
}

func (w *wrong) receive(body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judgeBody(body)
	message, err := wire.ParseFromSupervisor(body)
	if err != nil {
		panic(err)
	}
	switch m := message.(type) {
	case wire.Discover:
		w.discovered(m)
	case wire.Refuse:
		if w.is("goes-on-after-refuse") {
			return
		}
		if !w.is("refused-without-a-word") {
			fmt.Fprintln(os.Stderr, strings.Join(m.Problems, "\n"))
		}
		os.Exit(1)
	case wire.Start:
		w.begun(m, body)
	case wire.Batch:
		w.batch(m)
	case wire.Revoke:
		w.revoked(m.ID)
	case wire.Ping:
		if w.is("no-pong-beside-a-handler") && len(w.owed) > 0 {
			hangs()
		}
		if w.is("pong-with-its-own-number") {
			m.N = 1
		}
		if w.is("acks-what-never-came") && w.running && w.lastID == 0 {
			w.send(wire.Ack{ID: 1})
		}
		w.send(wire.Pong(m))
	case wire.Stop:
		w.stop(m.Mode)
	}
}

func (w *wrong) discovered(m wire.Discover) {
	if os.Getenv(discoveryVariable) == "error" && !w.is("describes-itself-all-the-same") {
		if !w.is("no-descriptor-without-a-word") {
			fmt.Fprintln(os.Stderr, noDescriptorToday)
		}
		if w.is("no-descriptor-with-0") {
			os.Exit(0)
		}
		os.Exit(1)
	}
	w.specs++
	if w.is("one-discovery") && w.specs > 1 {
		hangs()
	}
	d := wire.Descriptor{ProtocolVersion: wire.Version, Streamlet: reference()}
	s := &d.Streamlet
	switch w.fault {
	case "another-fingerprint":
		s.Inlets[0].Contract.Fingerprint = wire.Fingerprint("conformance.v2")
	case "no-inlet-side":
		s.Inlets = s.Inlets[:1]
	case "another-default":
		s.Parameters[1].Default = "3"
	case "version-of-the-supervisor":
		d.ProtocolVersion = m.Protocol
	case "another-descriptor-each-time":
		s.Description = strconv.Itoa(w.specs)
	}
	capabilities := wire.Capabilities{Ping: !w.is("no-ping"), MaxInFlight: 32}
	if w.is("one-in-flight") {
		capabilities.MaxInFlight = 1
	}
	w.send(wire.Spec{Descriptor: d, Capabilities: capabilities})
}

func (w *wrong) begun(m wire.Start, body []byte) {
	if m.Config["mode"] == "broken" && !w.is("begins-when-broken") {
		if !w.is("broken-without-a-word") {
			fmt.Fprintln(os.Stderr, modeIsBroken)
		}
		if w.is("broken-with-0") {
			os.Exit(0)
		}
		os.Exit(1)
	}
	switch {
	case w.is("the-first-configuration") && w.started:
	case w.is("the-first-of-two-keys") && bytes.Count(body, []byte("factor")) > 1:
		w.config = map[string]any{"mode": m.Config["mode"], "factor": int64(0)}
	default:
		w.config = m.Config
	}
	w.started, w.running = true, true
}

func (w *wrong) batch(m wire.Batch) {
	for _, other := range w.owed {
		long := bytes.HasSuffix(other.Records[len(other.Records)-1].Key, []byte("late"))
		if long && (w.is("one-batch-at-a-time") || w.is("one-inlet-at-a-time") && other.Partition == m.Partition) {
			hangs()
		}
	}
	if w.is("ids-in-a-row") && m.ID != w.lastID+1 || w.is("eight-partitions") && m.Partition >= 8 && m.Partition < 64 {
		hangs()
	}
	w.lastID = m.ID
	b := &wrongBatch{Batch: m, config: w.config}
	w.owed[m.ID] = b
	if w.is("busy-handlers-in-the-reader") && bytes.HasPrefix(m.Records[len(m.Records)-1].Key, []byte("busy")) {
		w.mu.Unlock()
		w.handle(b)
		w.mu.Lock()
		return
	}
	go w.handle(b)
}

func (w *wrong) revoked(id uint64) {
	b := w.owed[id]
	switch {
	case b != nil:
		b.void = true
		if w.is("answers-a-revoke-at-once") {
			w.send(wire.Ack{ID: id})
		}
	case w.is("answers-every-revoke") && w.answered[id]:
		w.send(wire.Ack{ID: id})
	case w.is("no-unknown-revoke") && !w.answered[id]:
		hangs()
	}
	w.endIfFinished()
}

func (w *wrong) stop(mode wire.StopMode) {
	switch {
	case w.is("stopped-when-stopped") && !w.running:
		w.send(wire.Stopped{})
		return
	case w.is("no-stopped-when-idle") && mode == wire.Finish && len(w.owed) == 0,
		w.is("one-stop") && w.finishing:
		hangs()
	}
	w.finishing = w.running
	if mode == wire.Abandon {
		for _, b := range w.owed {
			if w.is("abandon-waits") {
				hangs()
			}
			b.void = true
		}
	}
	w.endIfFinished()
}

// endIfFinished says stopped where nothing is in its way.
func (w *wrong) endIfFinished() {
	for _, b := range w.owed {
		if !b.void && !w.is("finish-does-not-wait") {
			return
		}
		if w.finishing && w.is("finish-waits-for-void") && b.void {
			hangs()
		}
	}
	if w.finishing {
		w.running, w.finishing, w.stoppedYet = false, false, true
		w.send(wire.Stopped{})
	}
}

// answer sends a batch's one answer.
func (w *wrong) answer(b *wrongBatch, m wire.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.is("fail-waits-for-the-others") && m.Kind() == wire.KindFail && len(w.owed) > 1 && string(b.Records[0].Key) == "fail" {
		hangs()
	}
	dropped := w.is("no-answer-of-void-batches") && b.void || w.is("no-answer-when-stopped") && !w.running && b.void
	if dropped {
		hangs()
	}
	w.send(m)
	if w.is("void-batches-twice") && b.void {
		w.send(m)
	}
	delete(w.owed, b.ID)
	w.answered[b.ID] = true
	for _, line := range w.errors {
		fmt.Fprintln(os.Stderr, line)
	}
	w.errors = nil
	w.endIfFinished()
}

// wrongEmit is one record for an outlet; index is its place in the batch, where it is unchanged.
type wrongEmit struct {
	outlet string
	index  int
	record *record.Record
}

// handle does a batch.
func (w *wrong) handle(b *wrongBatch) {
	var emits []wrongEmit
	for i := range b.Records {
		more, err := w.do(b, i)
		if err != nil {
			w.failed(b, i, err)
			return
		}
		emits = append(emits, more...)
	}
	if w.is("no-ack-without-emit") && len(emits) == 0 {
		hangs()
	}
	if w.is("threes-reversed") && len(emits) == 3 && len(b.Records) == 3 {
		emits[0], emits[2] = emits[2], emits[0]
	}
	if w.is("last-record-of-three-forgotten") && len(emits) == 3 && len(b.Records) == 3 {
		emits = emits[:2]
	}
	late := w.is("last-emit-after-ack") && len(b.Records) > 50
	if late {
		emits = emits[:len(emits)-1]
	}
	if err := w.emit(b, emits); err != nil {
		w.failed(b, 0, err)
		return
	}
	w.answer(b, wire.Ack{ID: b.ID})
	if late {
		w.send(wire.Forward{ID: b.ID, Outlet: "out", Indexes: []int{0}})
	}
}

// wrongExit is an error that ends the process.
type wrongExit struct{}

func (wrongExit) Error() string { return "the handler exits" }

func (w *wrong) failed(b *wrongBatch, index int, err error) {
	_, leaves := err.(wrongExit)
	switch {
	case leaves && w.is("exit-without-fail"):
		w.out.drain()
		os.Exit(3)
	case w.is("fail-is-ack") && !leaves:
		w.answer(b, wire.Ack{ID: b.ID})
		return
	}
	text := err.Error()
	m := wire.Fail{ID: b.ID, Message: text, Offset: b.Records[index].Offset, HasOffset: true}
	switch {
	case w.is("fail-with-the-first-offset"):
		m.Offset = b.Records[0].Offset
	case w.is("fail-with-no-offset-of-it"):
		m.Offset += 1_000_000
	case w.is("fail-without-message"):
		m.Message = ""
	}
	if len(text) > wire.MaxText && w.is("fail-not-cut") {
		p := new(pack).array(3).str("fail").integer(int64(b.ID)).mapOf(2).str("message").str(text).str("detail").str(text)
		w.out.put(p.frame(), false)
		return
	}
	m.Message = m.Message[:min(len(m.Message), wire.MaxText)]
	w.answer(b, m)
	if leaves {
		w.out.drain()
		os.Exit(3)
	}
}

// do does one record.
func (w *wrong) do(b *wrongBatch, i int) ([]wrongEmit, error) {
	r := b.Records[i]
	word, _, _ := strings.Cut(string(r.Key), ":")
	if mode := b.config["mode"].(string); mode != defaultMode {
		word = mode
	}
	changed := r
	one := []wrongEmit{{"out", i, &changed}}
	switch word {
	case "skip":
		return nil, nil
	case "fan":
		if w.is("fan-once") {
			return []wrongEmit{{"out", i, nil}, {"other", i, nil}}, nil
		}
		return []wrongEmit{{"out", i, nil}, {"other", i, nil}, {"out", i, nil}}, nil
	case "fail":
		return nil, fmt.Errorf("%s", r.Value)
	case "exit":
		return nil, wrongExit{}
	case "rogue-outlet":
		return w.rogue(b, i)
	case "multiply":
		n, _ := strconv.ParseInt(string(r.Value), 10, 64)
		factor := b.config["factor"].(int64)
		if w.is("always-the-default") {
			factor = defaultFactor
		}
		changed.Value = strconv.AppendInt(nil, n*factor, 10)
	case "unkeyed":
		changed.Key = nil
		if w.is("empty-for-no-key") {
			changed.Key = []byte{}
		}
	case "header-echo":
		changed = w.headerEcho(r)
	case "make":
		n, _ := strconv.Atoi(string(r.Value))
		changed = made(string(r.Key), n)
	case "read":
		changed.Value = []byte{}
		if w.is("null-for-nothing-read") {
			changed.Value = nil
		}
	default:
		return w.act(word, i, r)
	}
	return one, nil
}

func (w *wrong) rogue(b *wrongBatch, i int) ([]wrongEmit, error) {
	switch w.fault {
	case "rogue-sent":
		w.send(wire.Forward{ID: b.ID, Outlet: "nowhere", Indexes: []int{i}})
		return nil, nil
	case "rogue-dropped":
		return nil, nil
	case "rogue-without-its-name":
		return nil, fmt.Errorf("no such outlet")
	}
	return nil, fmt.Errorf("no outlet %q", "nowhere")
}

// text is what a decoder of text makes of bytes.
func decoded(b []byte) []byte {
	if b == nil {
		return nil
	}
	return []byte(strings.ToValidUTF8(string(b), "\uFFFD"))
}

func (w *wrong) headerEcho(r record.Record) record.Record {
	r = withEcho(r)
	empty := func(b []byte) []byte {
		if b == nil {
			return []byte{}
		}
		return b
	}
	switch w.fault {
	case "header-before-the-others":
		n := len(r.Headers) - 1
		r.Headers = append([]record.Header{r.Headers[n]}, r.Headers[:n]...)
	case "headers-once":
		var once []record.Header
		for i, h := range r.Headers {
			again := false
			for _, later := range r.Headers[i+1:] {
				again = again || bytes.Equal(h.Name, later.Name)
			}
			if !again {
				once = append(once, h)
			}
		}
		r.Headers = once
	case "a-megabyte-cut":
		r.Value = r.Value[:min(len(r.Value), 1_000_000)]
		if r.Value == nil {
			break
		}
	case "length-of-16-bits":
		if len(r.Value) == 1<<16 {
			r.Value = []byte{}
		}
	case "null-key-is-empty":
		r.Key = empty(r.Key)
	case "null-value-is-empty":
		r.Value = empty(r.Value)
	case "empty-value-is-null":
		if len(r.Value) == 0 {
			r.Value = nil
		}
	case "null-header-is-empty":
		for i := range r.Headers {
			r.Headers[i].Value = empty(r.Headers[i].Value)
		}
	case "names-are-text":
		for i := range r.Headers {
			r.Headers[i].Name = decoded(r.Headers[i].Name)
		}
	case "values-are-text":
		r.Value = decoded(r.Value)
	}
	return r
}

// act does what words do that emit the record as it is.
func (w *wrong) act(word string, i int, r record.Record) ([]wrongEmit, error) {
	text := string(r.Value)
	switch word {
	case "print":
		switch {
		case w.is("prints-between-frames"):
			_, _ = w.protocols[1].WriteString(text + "\n")
		case !w.is("prints-nowhere"):
			fmt.Println(text)
		}
	case "print-fd":
		if w.is("writes-between-frames") {
			_, _ = w.protocols[1].WriteString(text + "\n")
			break
		}
		_, _ = unix.Write(1, []byte(text+"\n"))
	case "print-err":
		if w.is("stderr-at-the-end") && text == "before the wait" {
			w.mu.Lock()
			w.errors = append(w.errors, text)
			w.mu.Unlock()
			break
		}
		fmt.Fprintln(os.Stderr, text)
	case "run":
		shell := exec.Command("sh", "-c", text)
		shell.Stdin, shell.Stdout, shell.Stderr = os.Stdin, os.Stdout, os.Stderr
		if w.is("children-have-its-stdin") {
			shell.Stdin = strings.NewReader("a frame")
		}
		if w.is("children-have-its-stdout") {
			shell.Stdout = w.protocols[1]
		}
		_ = shell.Run()
	case "late", "busy":
		w.waits(word, text)
	}
	unchanged := wrongEmit{"out", i, nil}
	if w.is("keys-are-text") {
		changed := r
		changed.Key = decoded(r.Key)
		unchanged.record = &changed
	}
	return []wrongEmit{unchanged}, nil
}

func (w *wrong) waits(word, path string) {
	w.mu.Lock()
	if len(w.errors) > 0 {
		hangs()
	}
	w.mu.Unlock()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if word == "late" {
			<-time.After(10 * time.Millisecond)
		}
	}
}

// emit sends what a batch emits: a frame a record, or what a fault makes of it.
func (w *wrong) emit(b *wrongBatch, emits []wrongEmit) error {
	forwarded := 0
	var all []record.Record
	for _, e := range emits {
		if e.record == nil {
			index := e.index
			if w.is("forward-counts-what-it-forwards") {
				index = forwarded
			}
			forwarded++
			w.send(wire.Forward{ID: b.ID, Outlet: e.outlet, Indexes: []int{index}})
			continue
		}
		records := wire.EncodeRecords([]record.Record{withNow(*e.record)})
		frame := encodedEmit(b.ID, e.outlet, records)
		limit := wire.MaxRecord
		if w.is("largest-record-refused") {
			limit--
		}
		size := len(frame) - len(encodedEmit(b.ID, e.outlet, wire.RawRecords{}))
		switch {
		case size > limit && w.is("over-limit-without-the-limit"):
			return fmt.Errorf("the record is too large")
		case size > limit && !w.is("over-limit-sent"):
			return fmt.Errorf("a record of %d bytes, the limit is %d", size, wire.MaxRecord)
		case w.is("one-frame-of-emits"):
			all = append(all, withNow(*e.record))
			continue
		}
		if w.is("ids-of-32-bits") {
			frame = encodedEmit(b.ID&(1<<32-1), e.outlet, records)
		}
		w.out.put(frame, false)
	}
	if len(all) > 0 {
		w.out.put(encodedEmit(b.ID, "out", wire.EncodeRecords(all)), false)
	}
	return nil
}

func withNow(r record.Record) record.Record {
	r.Timestamp = record.Now
	return r
}

// encodedEmit is an emit's frame, also where it is over the limit.
func encodedEmit(id uint64, outlet string, records wire.RawRecords) []byte {
	p := new(pack).array(4).str("emit").integer(int64(id)).str(outlet)
	none := encoded(wire.Emit{ID: 1, Outlet: "out"})
	whole, err := wire.Append(nil, wire.Emit{ID: 1, Outlet: "out", Records: records})
	if err != nil {
		// Over the limit: by hand.
		all := records.Append(nil)
		p.array(len(all))
		for _, r := range all {
			p.array(4).bin(r.Key).bin(r.Value).array(0).null()
		}
		return p.frame()
	}
	// What stands behind the outlet: the array of records.
	p.buf = append(p.buf, whole[len(none)-1:]...)
	return p.frame()
}
