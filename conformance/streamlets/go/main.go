package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sys/unix"
)

func main() {
	if _, launched := os.LookupEnv("ANKKA_FLOW_PROTOCOL"); !launched {
		stop("this is a streamlet; run it so: ankka-flow run -- conformance-streamlet")
	}
	os.Unsetenv("ANKKA_FLOW_PROTOCOL") // the programs that we start are not launched by a supervisor
	in, out, err := takePipes()
	if err != nil {
		stop(err.Error())
	}
	p := newProcess(newOutbox(out))
	for reader := bufio.NewReader(in); ; {
		message, err := readFrame(reader)
		if err == io.EOF {
			os.Exit(p.exitCode())
		}
		if err != nil {
			stop(err.Error())
		}
		p.receive(message)
	}
}

// stop ends a process that cannot go on: why is for people.
func stop(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// takePipes takes descriptors 0 and 1 for the protocol, before anything can print or start a
// program: what is printed is on stderr from then on, and nothing is to be read.
func takePipes() (in, out *os.File, err error) {
	fds := [2]int{}
	for fd := range fds {
		if fds[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return nil, nil, fmt.Errorf("taking descriptor %d: %w", fd, err)
		}
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Dup2(int(nothing.Fd()), 0); err != nil {
		return nil, nil, err
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "protocol in"), os.NewFile(uintptr(fds[1]), "protocol out"), nil
}

const maxFrame = 4 << 20

// readFrame is the next message; io.EOF where the input ended between two.
func readFrame(r io.Reader) ([]any, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, io.EOF // also within a frame: the supervisor is gone
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is announced", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, io.EOF
	}
	var message []any
	if err := msgpack.Unmarshal(body, &message); err != nil {
		return nil, fmt.Errorf("reading a frame: %w", err)
	}
	if len(message) == 0 {
		return nil, fmt.Errorf("a frame without a kind")
	}
	return message, nil
}

// frame is a message as it is written.
func frame(message ...any) []byte {
	body, err := msgpack.Marshal(message)
	if err != nil {
		panic(fmt.Sprintf("encoding %v: %v", message[0], err)) // it is made of what msgpack has
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
