package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The files of a state directory. ready is there while the supervisor is ready;
// alive is there while it runs, and touched while its loop turns. Both hold its
// process id.
const (
	ReadyFile = "ready"
	AliveFile = "alive"
)

// AliveWithin is how old the last turn of the loop may be before the supervisor
// counts as dead: a busy machine is not a dead one.
const AliveWithin = 10 * time.Second

// stateFiles writes the files of one directory. The zero one writes none.
type stateFiles struct {
	dir string
}

func (f *stateFiles) path(name string) string { return filepath.Join(f.dir, name) }

// write makes a file, or renews its time.
func (f *stateFiles) write(name string) error {
	if f.dir == "" {
		return nil
	}
	now := time.Now()
	err := os.Chtimes(f.path(name), now, now)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.WriteFile(f.path(name), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err == nil {
			err = os.Chtimes(f.path(name), now, now)
		}
	}
	return err
}

func (f *stateFiles) remove(name string) error {
	if f.dir == "" {
		return nil
	}
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Probe looks at a state directory: what is ReadyFile or AliveFile. Its error
// says in a sentence why it is not so. Ready needs alive too, for a supervisor
// that was killed takes nothing away.
func Probe(dir, what string, now time.Time) error {
	info, err := os.Stat(filepath.Join(dir, AliveFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no supervisor runs with the state directory %s", dir)
	case err != nil:
		return fmt.Errorf("looking at the state directory: %w", err)
	}
	// A time in the future is of a clock that was set back, and says nothing.
	age := now.Sub(info.ModTime())
	if age > AliveWithin || age < -AliveWithin {
		return fmt.Errorf("the supervisor's loop has not turned for %v (%s is that old)", age.Round(time.Second), filepath.Join(dir, AliveFile))
	}
	if what == AliveFile {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, what)); err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	return nil
}
