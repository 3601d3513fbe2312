package conformance

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ankka-flow/delivery/record"
)

// What a trace shows of one frame: enough to see what is wrong, never a megabyte.
const (
	maxShownBytes    = 40
	maxShownElements = 12
	maxShownFrame    = 1200
)

// showFrame is a frame's body as the traces of PROTOCOL.md write it, but for bytes: those
// stand as b"text", with their number where they are cut. What is no msgpack is shown as far
// as it can be read, and then as hex.
func showFrame(body []byte) string {
	v := viewer{b: body}
	v.value(0)
	if !v.broken && v.off < len(body) {
		v.print(" and behind it ")
		v.broken = true
	}
	if v.broken {
		rest := body[min(v.off, len(body)):]
		v.print(fmt.Sprintf("<% x", rest[:min(len(rest), maxShownBytes)]))
		if len(rest) > maxShownBytes {
			v.print(fmt.Sprintf(" ... %d bytes", len(rest)))
		}
		v.print(">")
	}
	s := string(v.out)
	if len(s) > maxShownFrame {
		s = strings.ToValidUTF8(s[:maxShownFrame], "") + fmt.Sprintf(" ... (%d bytes)", len(body))
	}
	return s
}

// viewer walks msgpack of any origin.
type viewer struct {
	b      []byte
	off    int
	broken bool
	out    []byte
}

func (v *viewer) print(a ...any) { v.out = fmt.Append(v.out, a...) }

// number takes width bytes, big-endian.
func (v *viewer) number(width int) uint64 {
	if v.broken || len(v.b)-v.off < width {
		v.broken = true
		return 0
	}
	var wide [8]byte
	copy(wide[8-width:], v.b[v.off:v.off+width])
	v.off += width
	return binary.BigEndian.Uint64(wide[:])
}

// bytes takes n bytes.
func (v *viewer) bytes(n uint64) []byte {
	if v.broken || uint64(len(v.b)-v.off) < n {
		v.broken = true
		return nil
	}
	b := v.b[v.off : v.off+int(n)]
	v.off += int(n)
	return b
}

func (v *viewer) value(depth int) {
	if v.broken || v.off >= len(v.b) || depth > 2*deepest {
		v.broken = true
		return
	}
	code := v.b[v.off]
	v.off++
	switch {
	case code < 0x80 || code >= 0xe0:
		v.print(int8(code))
	case code < 0x90:
		v.many(uint64(code&0xf), true, depth)
	case code < 0xa0:
		v.many(uint64(code&0xf), false, depth)
	case code < 0xc0:
		v.text(v.bytes(uint64(code&0x1f)), "")
	case code == 0xc0:
		v.print("null")
	case code == 0xc2 || code == 0xc3:
		v.print(code == 0xc3)
	case code >= 0xc4 && code <= 0xc6:
		v.text(v.bytes(v.number(1<<(code-0xc4))), "b")
	case code == 0xca:
		v.print(strconv.FormatFloat(float64(math.Float32frombits(uint32(v.number(4)))), 'g', -1, 32))
	case code == 0xcb:
		v.print(strconv.FormatFloat(math.Float64frombits(v.number(8)), 'g', -1, 64))
	case code >= 0xcc && code <= 0xcf:
		v.print(v.number(1 << (code - 0xcc)))
	case code >= 0xd0 && code <= 0xd3:
		width := 1 << (code - 0xd0)
		shift := 64 - 8*width
		v.print(int64(v.number(width)<<shift) >> shift)
	case code >= 0xd9 && code <= 0xdb:
		v.text(v.bytes(v.number(1<<(code-0xd9))), "")
	case code == 0xdc || code == 0xdd:
		v.many(v.number(2<<(code-0xdc)), false, depth)
	case code == 0xde || code == 0xdf:
		v.many(v.number(2<<(code-0xde)), true, depth)
	default:
		v.off--
		v.broken = true
	}
}

func (v *viewer) text(b []byte, before string) {
	if !v.broken {
		v.print(before + quoted(b))
	}
}

// many is the elements of an array or a map; those past maxShownElements are walked and
// counted, so that what comes behind them is shown.
func (v *viewer) many(n uint64, isMap bool, depth int) {
	open, end := "[", "]"
	if isMap {
		open, end = "{", "}"
	}
	v.print(open)
	shown := len(v.out)
	for i := uint64(0); i < n && !v.broken; i++ {
		if i > 0 {
			v.print(",")
		}
		if isMap {
			v.value(depth + 1)
			v.print(":")
		}
		v.value(depth + 1)
		if i < maxShownElements {
			shown = len(v.out)
		} else if !v.broken {
			v.out = v.out[:shown]
		}
	}
	if n > maxShownElements && !v.broken {
		v.print(fmt.Sprintf(",... %d more", n-maxShownElements))
	}
	if !v.broken {
		v.print(end)
	}
}

// quoted is bytes as a text in quotes, cut after maxShownBytes with their number behind it.
func quoted(b []byte) string {
	if len(b) <= maxShownBytes {
		return strconv.Quote(string(b))
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(string(b[:maxShownBytes])), len(b))
}

// showBytes is a key, a value or a header's value: null and empty look different.
func showBytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return quoted(b)
}

// showRecord is an emitted record, without what is not compared.
func showRecord(r *record.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{key %s, value %s, headers [", showBytes(r.Key), showBytes(r.Value))
	for i, h := range r.Headers {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxShownElements {
			fmt.Fprintf(&b, "... %d more", len(r.Headers)-i)
			break
		}
		fmt.Fprintf(&b, "%s=%s", quoted(h.Name), showBytes(h.Value))
	}
	b.WriteString("]}")
	return b.String()
}
