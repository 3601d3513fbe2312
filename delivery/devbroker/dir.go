package devbroker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a data directory has beside kfake's own files.
const (
	// lockName is locked by who has the directory.
	lockName = "lock"
	// metaName is kfake's file with the cluster id; where it is, data is.
	metaName = "meta.json"
)

func addressFile(dir string) string { return filepath.Join(dir, "address") }

// HasData says whether a directory holds an embedded broker's data.
func HasData(dir string) bool { return exists(filepath.Join(dir, metaName)) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Place is where a running broker is, and which one it is.
type Place struct {
	// Address is host:port.
	Address string
	// ClusterID is the identity of its data (Broker.ClusterID); empty when it
	// is of a version that wrote none.
	ClusterID string
}

// Find returns the place of the broker that lives on the data of a directory;
// ok is false when none does. It waits, until ctx ends, for one that is just
// starting. It makes and changes nothing.
func Find(ctx context.Context, dir string) (place Place, ok bool) {
	for {
		f, err := os.Open(filepath.Join(dir, lockName))
		if err != nil {
			return Place{}, false
		}
		// Shared, so that two who look do not take each other for a broker.
		err = lock(f, dir, syscall.LOCK_SH)
		var inUse *InUseError
		switch {
		case err == nil:
			_ = f.Close()
			return Place{}, false
		case !errors.As(err, &inUse):
			return Place{}, false
		case inUse.Address != "":
			return Place{inUse.Address, inUse.ClusterID}, true
		}
		select {
		case <-ctx.Done():
			return Place{}, false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lockPatience is how long Open takes a lock that is held for one that Find
// holds for a moment.
const lockPatience = 100 * time.Millisecond

// lockToOpen takes the directory's lock for a broker's life.
func lockToOpen(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, &DirError{dir, err}
	}
	for waited := time.Duration(0); ; waited += lockPatience / 10 {
		err := lock(f, dir, syscall.LOCK_EX)
		if err == nil {
			return f, nil
		}
		var inUse *InUseError
		if waited >= lockPatience || !errors.As(err, &inUse) {
			_ = f.Close()
			return nil, err
		}
		time.Sleep(lockPatience / 10)
	}
}

// lock locks the directory by its lock file, or says with *InUseError who has
// it. The kernel lets go of it when the process dies, however it dies; a pid
// file would have to be guessed at.
func lock(f *os.File, dir string, how int) error {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return &DirError{dir, fmt.Errorf("locking it: %w", err)}
	}
	text, _ := os.ReadFile(addressFile(dir)) // missing: just starting
	address, id, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return &InUseError{Dir: dir, Address: address, ClusterID: id}
}

// writeAddress replaces the file at once, so that a reader sees an address or
// none. The old one went with the lock's last holder, or is stale: Find looks
// at it only while the lock is held, and Open removes it first.
func writeAddress(dir, address, id string) error {
	tmp := addressFile(dir) + ".new"
	if err := os.WriteFile(tmp, []byte(address+"\n"+id+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, addressFile(dir))
}

// kfakeID is the id that kfake gives every cluster of which nothing is said, as
// earlier versions of this package did. It tells nobody apart.
const kfakeID = "kfake"

// readClusterID is the identity of the directory's data, or empty where it has
// no data or one that tells it from no other.
func readClusterID(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		return ""
	}
	var meta struct {
		ClusterID string `json:"cluster_id"`
	}
	if json.Unmarshal(text, &meta) != nil || meta.ClusterID == kfakeID {
		return ""
	}
	return meta.ClusterID
}

// ensureClusterID gives the identity of the directory's data, a new one where
// there is none. The lock is held. kfake reads it from its own file where that
// exists, so an old file gets it; a file that cannot be read is left to kfake,
// which says what is wrong with it.
func ensureClusterID(dir string) (string, error) {
	if id := readClusterID(dir); id != "" {
		return id, nil
	}
	random := make([]byte, 16) // as many as Kafka's own ids
	_, _ = rand.Read(random)   // never fails
	id := base64.RawURLEncoding.EncodeToString(random)
	path := filepath.Join(dir, metaName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return id, nil
	}
	var meta map[string]any
	if err != nil || json.Unmarshal(text, &meta) != nil || meta == nil {
		return id, nil
	}
	meta["cluster_id"] = id
	if text, err = json.Marshal(meta); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return "", err
	}
	return id, os.Rename(path+".new", path)
}
