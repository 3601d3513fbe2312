package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// process is the protocol's side: what is owed, and which state the conversation is in.
type process struct {
	out *outbox

	mu   sync.Mutex
	owed map[int64]*batch // not answered, void ones too
	// running: from start to stopped; finishing: stop came, and stopped follows the last
	// answer that counts.
	running, finishing bool
	config             config // of the present conversation
}

// batch is one that is not answered.
type batch struct {
	id      int64
	records []record
	config  config // of the conversation that it came in
	void    bool   // its answer is owed, and counts for nothing
}

func newProcess(out *outbox) *process { return &process{out: out, owed: map[int64]*batch{}} }

// receive does what a message of the supervisor asks for. It never waits.
func (p *process) receive(message []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch message[0] {
	case "discover":
		if os.Getenv("CONFORMANCE_DISCOVERY") == "error" {
			stop("no descriptor today")
		}
		p.out.put(frame("spec", descriptor(), map[string]any{"ping": true}))
	case "refuse":
		stop("refused:\n" + strings.Trim(fmt.Sprint(message[1]), "[]"))
	case "start":
		p.config = newConfig(message[1].(map[string]any)["config"].(map[string]any))
		if p.config.mode == "broken" {
			stop("mode is broken")
		}
		p.running = true
	case "batch":
		b := &batch{id: integer(message[1]), records: records(message[4]), config: p.config}
		p.owed[b.id] = b
		go p.handle(b)
	case "revoke":
		if b := p.owed[integer(message[1])]; b != nil {
			b.void = true
			p.endIfFinished()
		}
	case "ping":
		p.out.putAhead(frame("pong", message[1]))
	case "stop":
		p.finishing = p.running // otherwise it crossed with stopped
		if message[1].(map[string]any)["mode"] == "abandon" {
			for _, b := range p.owed {
				b.void = true
			}
		}
		p.endIfFinished()
	}
}

// endIfFinished says stopped where nothing is in its way. The caller holds the lock.
func (p *process) endIfFinished() {
	if !p.finishing {
		return
	}
	for _, b := range p.owed {
		if !b.void {
			return
		}
	}
	p.running, p.finishing = false, false
	p.out.put(frame("stopped"))
}

// exitCode is that of the end of the input: 1 where a handler still runs.
func (p *process) exitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.owed) > 0 {
		return 1
	}
	return 0
}

// handle does a batch and answers it, whatever comes of it.
func (p *process) handle(b *batch) {
	offset, err := p.do(b)
	if err == nil {
		p.answer(b, frame("ack", b.id))
		return
	}
	p.answer(b, frame("fail", b.id, map[string]any{"message": cut(err.Error()), "offset": offset, "kind": fmt.Sprintf("%T", err)}))
	if _, leave := err.(exit); leave {
		p.out.drain() // nothing that was said shall be lost
		os.Exit(int(err.(exit)))
	}
}

// answer sends the one answer of a batch.
func (p *process) answer(b *batch, frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.put(frame)
	delete(p.owed, b.id)
	p.endIfFinished()
}

// do does the records one after the other; offset is that of the one at which it failed, also
// where it panicked.
func (p *process) do(b *batch) (offset int64, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fmt.Errorf("panic: %v", failed)
		}
	}()
	for i, r := range b.records {
		offset = r.offset
		emits, err := b.config.handle(r)
		if err != nil {
			return offset, err
		}
		for _, e := range emits {
			if err := p.emit(b, i, e); err != nil {
				return offset, err
			}
		}
	}
	return offset, nil
}

const maxRecord = maxFrame - 64<<10

// emit sends a record of the batch's as it is, where e has no record of its own.
func (p *process) emit(b *batch, index int, e emit) error {
	if e.outlet != "out" && e.outlet != "other" {
		return fmt.Errorf("no outlet %q is declared", e.outlet)
	}
	if e.record == nil {
		p.out.put(frame("forward", b.id, e.outlet, []int{index}))
		return nil
	}
	array := []any{e.record.key, e.record.value, e.record.headers}
	if size := len(frame(array...)) - 4; size > maxRecord {
		return fmt.Errorf("a record of %d bytes for %q, the limit is %d", size, e.outlet, maxRecord)
	}
	p.out.put(frame("emit", b.id, e.outlet, []any{array}))
	return nil
}

// cut keeps a text within what a fail shows, and within its frame.
func cut(text string) string {
	const most = 64 << 10
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// descriptor is what REFERENCE.md declares.
func descriptor() map[string]any {
	sum := sha256.Sum256([]byte("conformance.v1"))
	contract := map[string]any{"format": "json", "schema_name": "conformance.v1", "fingerprint": base64.StdEncoding.EncodeToString(sum[:])}
	ports := func(names ...string) (ports []any) {
		for _, name := range names {
			ports = append(ports, map[string]any{"name": name, "contract": contract})
		}
		return ports
	}
	return map[string]any{
		"protocol_version": "1.0",
		"sdk":              map[string]any{"name": "plain Go", "version": "1"},
		"streamlet": map[string]any{
			"name": "conformance", "inlets": ports("in", "side"), "outlets": ports("out", "other"),
			"config_parameters": []any{
				map[string]any{"key": "mode", "type": "STRING", "default_value": "key"},
				map[string]any{"key": "factor", "type": "INTEGER", "default_value": "2"},
			},
		},
	}
}
