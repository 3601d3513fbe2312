package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// heldName is the name of a supervisor among those that run in one directory:
// the streamlet's, or NAME-2 for a second one of the same streamlet. The kernel
// lets go of it when the process dies.
type heldName struct {
	name string
	dir  string
	lock *os.File
}

// maxHeldNames is how many supervisors of one streamlet run in one directory.
const maxHeldNames = 100

// holdName takes the first name that is free.
func holdName(dir, streamlet string) (*heldName, error) {
	for n := 1; n <= maxHeldNames; n++ {
		name := streamlet
		if n > 1 {
			name = fmt.Sprintf("%s-%d", streamlet, n)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, fmt.Errorf("making the state directory: %w", err)
		}
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("locking the state directory: %w", err)
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &heldName{name: name, dir: path, lock: lock}, nil
		}
		_ = lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the state directory: %w", err)
		}
	}
	return nil, fmt.Errorf("%d supervisors of %s run in %s already", maxHeldNames, streamlet, dir)
}

// instance is the group.instance.id that this name stands for, "" for a nil
// one. It has the directory and the host in it, so that the same streamlet in
// another checkout, on the same cluster, is another member.
func (h *heldName) instance() string {
	if h == nil {
		return ""
	}
	host, _ := os.Hostname() // "" is as good as any
	path, err := filepath.Abs(h.dir)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(host + "\x00" + path))
	return h.name + "-" + hex.EncodeToString(sum[:6])
}

func (h *heldName) release() {
	if h != nil {
		_ = h.lock.Close()
	}
}
