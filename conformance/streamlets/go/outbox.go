package main

import (
	"os"
	"sync"
)

// outbox holds the frames that are not written. Whoever reads the input must never wait for
// the pipe that we write, so everybody only queues, and one goroutine writes.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	frames  [][]byte
	urgent  [][]byte // pongs go ahead
	writing bool
}

func newOutbox(out *os.File) *outbox {
	o := &outbox{}
	o.changed = sync.NewCond(&o.mu)
	go o.write(out)
	return o
}

func (o *outbox) put(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames = append(o.frames, frame)
	o.changed.Broadcast()
}

func (o *outbox) putAhead(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.urgent = append(o.urgent, frame)
	o.changed.Broadcast()
}

// write writes a frame at a time, whole.
func (o *outbox) write(out *os.File) {
	for {
		if _, err := out.Write(o.next()); err != nil {
			stop("the supervisor is gone: " + err.Error())
		}
	}
}

// next is the next frame; asking for it says that the last one is written.
func (o *outbox) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	o.changed.Broadcast()
	for len(o.urgent)+len(o.frames) == 0 {
		o.changed.Wait()
	}
	o.writing = true
	queue := &o.urgent
	if len(o.urgent) == 0 {
		queue = &o.frames
	}
	frame := (*queue)[0]
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	return frame
}

// drain waits until everything is written.
func (o *outbox) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing || len(o.urgent)+len(o.frames) > 0 {
		o.changed.Wait()
	}
}
