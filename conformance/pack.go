package conformance

import (
	"encoding/binary"
	"math"

	"ankka-flow/delivery/record"
)

// pack writes msgpack as no encoder of ours would: every header in the width that is asked
// for, extra elements, keys twice, text that is no UTF-8. Its zero value writes the narrowest.
type pack struct {
	buf []byte
	// wide: every header and every integer in its widest form.
	wide bool
}

// frame is what was packed as a frame, its length before it.
func (p *pack) frame() []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(p.buf))), p.buf...)
}

func (p *pack) array(n int) *pack { return p.header(n, 0x90, 15, 0xdc) }

func (p *pack) mapOf(n int) *pack { return p.header(n, 0x80, 15, 0xde) }

// header is that of an array or a map: fix holds up to most, then 16 bits, then 32.
func (p *pack) header(n int, fix byte, most int, code byte) *pack {
	switch {
	case p.wide || n >= 1<<16:
		p.buf = binary.BigEndian.AppendUint32(append(p.buf, code+1), uint32(n))
	case n <= most:
		p.buf = append(p.buf, fix|byte(n))
	default:
		p.buf = binary.BigEndian.AppendUint16(append(p.buf, code), uint16(n))
	}
	return p
}

func (p *pack) str(s string) *pack {
	switch n := len(s); {
	case p.wide || n >= 1<<16:
		p.buf = binary.BigEndian.AppendUint32(append(p.buf, 0xdb), uint32(n))
	case n < 32:
		p.buf = append(p.buf, 0xa0|byte(n))
	case n < 1<<8:
		p.buf = append(p.buf, 0xd9, byte(n))
	default:
		p.buf = binary.BigEndian.AppendUint16(append(p.buf, 0xda), uint16(n))
	}
	p.buf = append(p.buf, s...)
	return p
}

// bin is b, or nil where it is nil.
func (p *pack) bin(b []byte) *pack {
	switch n := len(b); {
	case b == nil:
		return p.null()
	case p.wide || n >= 1<<16:
		p.buf = binary.BigEndian.AppendUint32(append(p.buf, 0xc6), uint32(n))
	case n < 1<<8:
		p.buf = append(p.buf, 0xc4, byte(n))
	default:
		p.buf = binary.BigEndian.AppendUint16(append(p.buf, 0xc5), uint16(n))
	}
	p.buf = append(p.buf, b...)
	return p
}

func (p *pack) null() *pack {
	p.buf = append(p.buf, 0xc0)
	return p
}

func (p *pack) boolean(b bool) *pack {
	code := byte(0xc2)
	if b {
		code = 0xc3
	}
	p.buf = append(p.buf, code)
	return p
}

// integer is n in one byte where it fits and is not to be wide, otherwise in eight, signed.
func (p *pack) integer(n int64) *pack {
	if !p.wide && n >= -32 && n < 0x80 {
		p.buf = append(p.buf, byte(n))
		return p
	}
	p.buf = binary.BigEndian.AppendUint64(append(p.buf, 0xd3), uint64(n))
	return p
}

func (p *pack) double(f float64) *pack {
	p.buf = binary.BigEndian.AppendUint64(append(p.buf, 0xcb), math.Float64bits(f))
	return p
}

// known is a value of every type that a later minor version might add, one of them nested as
// deep as the page allows in an array that stands at depth.
func (p *pack) known(depth int) *pack {
	p.array(8).null().boolean(true).integer(-7).double(2.5).str("later").bin([]byte{0, 0xff})
	p.mapOf(1).str("k").array(0)
	for range deepest - depth - 1 {
		p.array(1)
	}
	return p.array(0)
}

// deepest is how deep arrays and maps nest at most, the message's own counted.
const deepest = 32

// record is a delivered record, with extra elements behind it and its headers.
func (p *pack) record(r *record.Record, extra bool) *pack {
	more := 0
	if extra {
		more = 1
	}
	p.array(5 + more).integer(r.Offset).integer(r.Timestamp).bin(r.Key).bin(r.Value).array(len(r.Headers))
	for _, h := range r.Headers {
		p.array(2 + more).bin(h.Name).bin(h.Value)
		if extra {
			p.str("later")
		}
	}
	if extra {
		p.known(4)
	}
	return p
}
