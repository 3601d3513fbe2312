package faultproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrame is far above what a test sends.
const maxFrame = 128 << 20

// readFrame reads what stands behind a size.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

var errShort = errors.New("the request ends in its header")

// parse reads a request's header and body (Kafka protocol, request header v1
// and v2).
func parse(frame []byte) (*Request, error) {
	if len(frame) < 10 {
		return nil, errShort
	}
	r := &Request{
		Key: kmsg.Key(binary.BigEndian.Uint16(frame)), Version: int16(binary.BigEndian.Uint16(frame[2:])),
		correlation: binary.BigEndian.Uint32(frame[4:]), frame: frame,
	}
	at := 10
	if n := int16(binary.BigEndian.Uint16(frame[8:])); n > 0 {
		if at += int(n); at > len(frame) {
			return nil, errShort
		}
		r.ClientID = string(frame[10:at])
	}
	r.Body = kmsg.RequestForKey(int16(r.Key))
	if r.Body == nil {
		return nil, fmt.Errorf("a request of key %d, which is not known", r.Key)
	}
	r.Body.SetVersion(r.Version)
	if r.Body.IsFlexible() {
		if at >= len(frame) || frame[at] != 0 {
			return nil, fmt.Errorf("%w: tags, which nobody sends", errShort)
		}
		at++
	}
	r.header = frame[:at:at]
	if r.Key == kmsg.Produce {
		// Others are read only by who asks for them: ApiVersions and SASL's
		// oldest forms are not all readable.
		return r, r.Body.ReadFrom(frame[at:])
	}
	r.readable(frame[at:])
	return r, nil
}

// readable fills the body where it can be read; a request that is only passed
// on need not be.
func (r *Request) readable(body []byte) {
	if r.Body.ReadFrom(body) != nil {
		r.Body = kmsg.RequestForKey(int16(r.Key))
		r.Body.SetVersion(r.Version)
	}
}

// answerBody is where an answer's body begins.
func (r *Request) answerBody() int {
	if r.Body.IsFlexible() && r.Key != kmsg.ApiVersions {
		return 5
	}
	return 4
}

// answer is the frame of an answer to r.
func (r *Request) answer(response kmsg.Response) []byte {
	frame := binary.BigEndian.AppendUint32(nil, r.correlation)
	if r.answerBody() == 5 {
		frame = append(frame, 0)
	}
	return response.AppendTo(frame)
}

// read reads an answer's body.
func (r *Request) read(frame []byte) (kmsg.Response, error) {
	if len(frame) < r.answerBody() || binary.BigEndian.Uint32(frame) != r.correlation {
		return nil, fmt.Errorf("an answer that belongs to another request than %s", r.Key.Name())
	}
	response := r.Body.ResponseKind()
	return response, response.ReadFrom(frame[r.answerBody():])
}
