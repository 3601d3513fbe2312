package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"ankka-flow/cmd/ankka-flow/screen"
)

// openLog makes the logger that the flags ask for, on stderr.
func (a *app) openLog() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.global.logLevel)); err != nil {
		return misuse("--log-level %q: it is debug, info, warn or error", a.global.logLevel)
	}
	terminal, width := terminalOf(a.stderr)
	text := terminal != nil
	switch a.global.logFormat {
	case "auto":
	case "text":
		text = true
	case "json":
		text = false
	default:
		return misuse("--log-format %q: it is auto, text or json", a.global.logFormat)
	}
	color := terminal != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	switch a.global.color {
	case "auto":
	case "always":
		color = true
	case "never":
		color = false
	default:
		return misuse("--color %q: it is auto, always or never", a.global.color)
	}
	a.color = color
	if terminal != nil && text {
		a.screen = screen.New(a.stderr, width, color)
		a.stderr = a.screen
	}
	if text {
		a.log = slog.New(columns{Handler: tint.NewTextHandler(a.stderr, &tint.Options{
			Level: level, NoColor: !color, TimeFormat: "15:04:05.000", ReplaceAttr: withoutTime(level),
		})})
	} else {
		a.log = slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	}
	return nil
}

// terminalOf is the terminal that w is, and its width now; nil: it is none.
func terminalOf(w io.Writer) (f *os.File, width func() int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, nil
	}
	return f, func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0
		}
		return columns
	}
}

// columnWidth holds the longest event name of ours.
const columnWidth = 10

// withoutTime leaves the time out of lines for people, who are there when they
// come; at the debug level they want to see how long things took.
func withoutTime(level slog.Level) func([]string, slog.Attr) slog.Attr {
	if level < slog.LevelInfo {
		return nil
	}
	return func(groups []string, attr slog.Attr) slog.Attr {
		if len(groups) == 0 && attr.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attr
	}
}

// columns shows the attribute "event" as a column before the message; where a
// process speaks, its name, and its fields as if they were ours.
type columns struct {
	slog.Handler
	// event is that of With, for records that have none of their own.
	event string
}

// Handle implements slog.Handler.
func (c columns) Handle(ctx context.Context, r slog.Record) error {
	event, process := c.event, ""
	out := slog.NewRecord(r.Time, r.Level, "", r.PC)
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "event":
			event = attr.Value.String()
		case "process":
			process = attr.Value.String()
		case "fields":
			out.AddAttrs(attr.Value.Group()...)
		default:
			out.AddAttrs(attr)
		}
		return true
	})
	event = orElse(process, event)
	out.Message = event + strings.Repeat(" ", max(1, columnWidth+1-len(event))) + string(screen.Clean(nil, []byte(oneLine(r.Message)), false))
	return c.Handler.Handle(ctx, out)
}

// oneLine joins the lines of a message, which may be a process's and hold
// anything, so that one event stays one line.
func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	var lines []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " / ")
}

// WithAttrs implements slog.Handler.
func (c columns) WithAttrs(attrs []slog.Attr) slog.Handler {
	rest := make([]slog.Attr, 0, len(attrs))
	for _, attr := range attrs {
		if attr.Key == "event" {
			c.event = attr.Value.String()
			continue
		}
		rest = append(rest, attr)
	}
	c.Handler = c.Handler.WithAttrs(rest)
	return c
}

// WithGroup implements slog.Handler.
func (c columns) WithGroup(name string) slog.Handler {
	c.Handler = c.Handler.WithGroup(name)
	return c
}
