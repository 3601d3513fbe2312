package wire

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Code names a violation: the first column of PROTOCOL.md's table.
type Code string

// Every violation there is. Those up to CodeHalfFrame are found by Reader, those
// up to CodeBadValue by ParseFromProcess, the rest by the caller, who knows the
// batches and the state.
const (
	CodeStrayText     Code = "stray-text"
	CodeJSON          Code = "json"
	CodeFrameTooLarge Code = "frame-too-large"
	CodeEmptyFrame    Code = "empty-frame"
	CodeHalfLength    Code = "half-length"
	CodeHalfFrame     Code = "half-frame"

	CodeNotArray       Code = "not-an-array"
	CodeTrailingBytes  Code = "trailing-bytes"
	CodeUnknownKind    Code = "unknown-kind"
	CodeWrongType      Code = "wrong-type"
	CodeOverrun        Code = "overrun"
	CodeExtension      Code = "extension"
	CodeDepth          Code = "depth"
	CodeInteger        Code = "integer"
	CodeRecordTooLarge Code = "record-too-large"
	CodeTooManySeries  Code = "too-many-series"
	CodeBadValue       Code = "bad-value"

	CodeNeverSent    Code = "never-sent"
	CodeAnswered     Code = "answered"
	CodeOutlet       Code = "outlet"
	CodeIndex        Code = "index"
	CodeOutOfPlace   Code = "out-of-place"
	CodeHeldTooMuch  Code = "held-too-much"
	CodeSpecExpected Code = "spec-expected"
)

// templates are the texts, which PROTOCOL.md repeats word for word (a test
// compares them). WHERE is the message's kind, with its batch where it is known.
var templates = []struct {
	Code Code
	Text string
}{
	{CodeStrayText, `the process wrote TEXT to stdout, which carries the protocol; print to stderr`},
	{CodeJSON, `the process speaks JSON; the protocol is msgpack (it wrote TEXT): send frames, as PROTOCOL.md describes them`},
	{CodeFrameTooLarge, `a frame of SIZE bytes is announced, the limit is 4194304; split what you emit over several frames`},
	{CodeEmptyFrame, `an empty frame: its length is 0; a frame holds one msgpack array [kind, ...]`},
	{CodeHalfLength, `stdout ended inside a frame: COUNT of the 4 bytes of its length came; write whole frames, and flush, before exiting`},
	{CodeHalfFrame, `stdout ended inside a frame: COUNT of SIZE bytes came; write whole frames, and flush, before exiting`},
	{CodeNotArray, `expected an array [kind, ...], got GOT: TEXT; did two threads write to stdout at once?`},
	{CodeTrailingBytes, `WHERE: COUNT bytes follow the message's array; a frame holds one array and its length counts just that`},
	{CodeUnknownKind, `unknown message TEXT; a SENDER sends KINDS`},
	{CodeWrongType, `WHERE: FIELD must be WANT, got GOT`},
	{CodeOverrun, `WHERE: FIELD is said to have COUNT UNIT, but REST bytes are left in the frame; write one frame at a time, whole`},
	{CodeExtension, `WHERE: FIELD is of a msgpack extension type; the protocol has none: send text, numbers or bytes`},
	{CodeDepth, `WHERE: FIELD nests deeper than 32 arrays and maps; no message needs more than 5`},
	{CodeInteger, `WHERE: FIELD is NUMBER; integers stay within 2^53 - 1 of 0: send a larger one as text`},
	{CodeRecordTooLarge, `WHERE: FIELD for outlet OUTLET has SIZE bytes as encoded, the limit is 4128768; store large values elsewhere and emit a reference`},
	{CodeTooManySeries, `WHERE: FIELD has COUNT series, the limit is 1000; split the report, or use fewer labels`},
	{CodeBadValue, `WHERE: FIELD must be WANT, not GOT`},
	{CodeNeverSent, `WHERE: no batch of that id was ever sent; answer with the id that the batch came with`},
	{CodeAnswered, `WHERE: that batch was answered before; emit before the ack, and answer every batch once`},
	{CodeOutlet, `WHERE: no outlet OUTLET is declared; declared are: OUTLETS`},
	{CodeIndex, `WHERE: indexes hold NUMBER, but the batch has COUNT records; an index counts from 0`},
	{CodeOutOfPlace, `WHERE: not allowed STATE; PROTOCOL.md has the table of who may send what when`},
	{CodeHeldTooMuch, `WHERE: its emits hold more than 67108864 bytes before its ack; emit less a record, or set batch.max-records lower`},
	{CodeSpecExpected, `WHERE: the first message must be spec, the answer to discover`},
}

// Violation is a breach of the protocol. It fails the stream, and its process is
// killed and launched again, for what else it would say cannot be trusted. It is
// for whoever wrote the process (an SDK's author, or a raw process's), and its
// text says what, where and what to do.
type Violation struct {
	Code Code
	// Kind is the message's, as "emit", or "" where it cannot be known.
	Kind string
	// Field is where in the message, as "records[3].key", or "".
	Field string
	// Batch is the batch the message speaks of, where HasBatch. A violation
	// without one accuses nobody.
	Batch    uint64
	HasBatch bool

	text string
}

// Error is the text of PROTOCOL.md's table, filled in.
func (v *Violation) Error() string { return v.text }

// where is the WHERE of the templates.
func (v *Violation) where() string {
	switch {
	case v.Kind == "":
		return "a frame"
	case v.HasBatch:
		return fmt.Sprintf("%s of batch %d", v.Kind, v.Batch)
	}
	return v.Kind
}

// fill makes v's text from its code's template; words are names in capitals and
// what replaces them, in pairs.
func (v *Violation) fill(words ...string) *Violation {
	field := v.Field
	if field == "" {
		field = "it"
	}
	words = append(words, "WHERE", v.where(), "FIELD", field)
	for _, t := range templates {
		if t.Code == v.Code {
			v.text = strings.NewReplacer(words...).Replace(t.Text)
			return v
		}
	}
	panic("wire: no template for violation " + string(v.Code))
}

// NotInFlight is an emit, forward, ack or fail for a batch that the process does
// not hold: sent says whether a batch of that id was ever sent to it.
func NotInFlight(kind string, id uint64, sent bool) *Violation {
	v := &Violation{Code: CodeNeverSent, Kind: kind, Field: "id", Batch: id, HasBatch: true}
	if sent {
		v.Code = CodeAnswered
	}
	return v.fill()
}

// UnknownOutlet is an emit or forward to an outlet that the descriptor does not
// declare.
func UnknownOutlet(kind string, id uint64, outlet string, declared []string) *Violation {
	v := &Violation{Code: CodeOutlet, Kind: kind, Field: "outlet", Batch: id, HasBatch: true}
	names := strings.Join(declared, ", ")
	if names == "" {
		names = "none"
	}
	return v.fill("OUTLETS", names, "OUTLET", quote(outlet))
}

// IndexOutOfRange is a forward of a record that the batch, of n records, does
// not have.
func IndexOutOfRange(id uint64, index, n int) *Violation {
	v := &Violation{Code: CodeIndex, Kind: KindForward, Field: "indexes", Batch: id, HasBatch: true}
	return v.fill("NUMBER", fmt.Sprint(index), "COUNT", fmt.Sprint(n))
}

// OutOfPlace is a message that may not be sent in this state. state completes
// "not allowed ...", as "before start" or "after stopped".
func OutOfPlace(kind, state string) *Violation {
	return (&Violation{Code: CodeOutOfPlace, Kind: kind}).fill("STATE", state)
}

// SpecExpected is any message but spec as the process's first.
func SpecExpected(kind string) *Violation {
	return (&Violation{Code: CodeSpecExpected, Kind: kind}).fill()
}

// HeldTooMuch is a batch whose emits exceed MaxHeld before its ack. It fails the
// batch; the driver need not kill the process for it.
func HeldTooMuch(kind string, id uint64) *Violation {
	return (&Violation{Code: CodeHeldTooMuch, Kind: kind, Batch: id, HasBatch: true}).fill()
}

// maxQuote is how many bytes of a process's own text a message shows.
const maxQuote = 64

// quote is text in double quotes, escaped, cut after maxQuote bytes with "..."
// inside the quotes: what comes from outside may hold anything, and any length.
func quote[T string | []byte](text T) string {
	if len(text) <= maxQuote {
		return fmt.Sprintf("%q", text)
	}
	cut := maxQuote
	for cut > maxQuote-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	q := fmt.Sprintf("%q", text[:cut])
	return q[:len(q)-1] + `..."`
}
