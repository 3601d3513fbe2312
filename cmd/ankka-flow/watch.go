package main

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// watchInterval is how often the files are looked at, less often where a look takes
// more than a tenth of it. Sizes and modification times are polled: events of the file
// system fail in mounted folders.
const watchInterval = 100 * time.Millisecond

// seenFile is what tells that a file changed.
type seenFile struct {
	size     int64
	modified time.Time
}

// watchFiles sends a reload for every change of what is watched, once things have
// been quiet for one interval: an editor writes in several steps.
func watchFiles(ctx context.Context, wg *sync.WaitGroup, reloads chan<- string, w watched, log *slog.Logger) {
	wg.Go(func() { // ends with ctx; run awaits it
		last := w.look()
		changed := ""
		timer := time.NewTimer(watchInterval)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			began := time.Now()
			now := w.look()
			timer.Reset(max(watchInterval, 10*time.Since(began)))
			name := difference(last, now)
			last = now
			if name != "" {
				changed = name
				continue
			}
			if changed == "" {
				continue
			}
			log.Debug(changed+" changed", "event", "watch")
			select {
			case reloads <- filepath.Base(changed) + " changed":
				changed = ""
			case <-ctx.Done():
				return
			}
		}
	})
}

// look notes every file that a person may have saved. Hidden files and folders
// and what interpreters leave behind are not among them, so that a running
// streamlet does not restart itself.
func (w *watched) look() map[string]seenFile {
	files := map[string]seenFile{}
	for _, root := range w.paths {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // a file that vanished is a change like others
			}
			if path != root && ignored(entry.Name()) {
				if entry.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if path != root && !w.counts(entry.Name()) {
				return nil
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				files[path] = seenFile{size: info.Size(), modified: info.ModTime()}
			}
			return nil
		})
	}
	return files
}

func ignored(name string) bool {
	if strings.HasPrefix(name, ".") && name != "." {
		return true
	}
	switch name {
	case "__pycache__", "node_modules", "venv":
		return true
	}
	for _, suffix := range []string{".pyc", "~", ".swp", ".tmp", ".log"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// difference names a file that is not as it was, or "".
func difference(before, now map[string]seenFile) string {
	for path, seen := range now {
		if before[path] != seen {
			return path
		}
	}
	for path := range before {
		if _, ok := now[path]; !ok {
			return path
		}
	}
	return ""
}
