package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"ankka-flow/cmd/ankka-flow/observe"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
	"ankka-flow/wire"
)

// defaultMetricsPort is FLOW_METRICS_PORT where it is not set.
const defaultMetricsPort = 2050

// observing is what people see of a run besides its log: the metrics, the
// probes and the status.
type observing struct {
	watch    *observe.Watch
	listener net.Listener // nil: --metrics-port 0
	log      *slog.Logger
	dir      string // the configured state directory; empty: none is
	keeper   *observe.Keeper
	server   *observe.Server
	end      context.CancelFunc
	kept     sync.WaitGroup
}

// openObserving takes the port, before anything else is started. Outside
// containers another supervisor may have it: then the next one is as good.
func openObserving(port int, log *slog.Logger) (*observing, error) {
	if port < 0 || port > 65535 {
		return nil, misuse("--metrics-port %d: it is a port from 1 to 65535, or 0 for none", port)
	}
	o := &observing{watch: observe.NewWatch(log), log: log}
	if port == 0 {
		return o, nil
	}
	inContainer := container() != ""
	listener, err := observe.Listen(port, inContainer, !inContainer)
	if err != nil {
		return nil, misuse("--metrics-port: %w", err)
	}
	o.listener = listener
	return o, nil
}

// readyText is what the first line that says that everything runs says besides;
// empty: nothing.
func (o *observing) readyText(watching []string) string {
	text := "conversation 1 runs"
	switch {
	case o.listener != nil:
		text = fmt.Sprintf("status http://127.0.0.1:%d", o.listener.Addr().(*net.TCPAddr).Port)
	case len(watching) == 0:
		return ""
	}
	if len(watching) > 0 {
		text += ", watching " + strings.Join(watching, ", ")
	}
	return text
}

// start begins to look at a run, before its Run.
func (o *observing) start(ctx context.Context, d *driver.Driver, b *runBroker, commands observe.Commands) {
	o.keeper = observe.NewKeeper(observe.KeeperConfig{
		Watch: o.watch, Source: d, Dir: stateDir(o.dir), Logger: o.log,
		List: func(ctx context.Context, topic string) (map[int32]int64, error) {
			return b.client.ListOffsets(ctx, topic, kafka.Latest)
		},
	})
	if stateDir(o.dir) == "" {
		b.named = o.keeper.UseDir
	}
	ctx, o.end = context.WithCancel(ctx)
	o.kept.Go(func() { o.keeper.Run(ctx) }) // ends with ctx; close awaits it
	if o.listener == nil {
		return
	}
	version, commit := buildVersion()
	build := observe.Build{Version: version, Commit: commit, Protocol: wire.Version, Go: runtime.Version()}
	o.server = observe.Serve(o.listener, o.keeper, build, commands, o.log)
}

// connectFlags are the flags by which our other commands reach the same brokers
// from the same directory; e is the embedded broker, nil where brokers are named.
func (a *app) connectFlags(e *embedded) string {
	var flags []string
	if file := a.settings.File; file != "" && e == nil {
		flags = append(flags, "-c "+word(file))
	}
	switch brokers := a.settings.Brokers; {
	case e != nil && e.dir != defaultBrokerData:
		flags = append(flags, "--broker-data "+word(e.dir))
	case e == nil && len(brokers) > 0:
		flags = append(flags, "-b "+strings.Join(brokers, ","))
	}
	return strings.Join(flags, " ")
}

// word is a path as one word of a shell's line.
func word(path string) string {
	if strings.ContainsAny(path, " '\"") {
		return strconv.Quote(path)
	}
	return path
}

func (o *observing) close() {
	if o.end != nil {
		o.end()
	}
	o.kept.Wait()
	switch {
	case o.server != nil:
		o.server.Close()
	case o.listener != nil:
		_ = o.listener.Close()
	}
}

// runDir is where every supervisor of a directory has its state directory,
// outside containers.
var runDir = filepath.Join(".ankka-flow", "run")

// stateDir is the directory of the probes' files, as far as it is known before
// the streamlet has said its name; empty: it is below runDir. The configured one
// (FLOW_STATE_DIR) may be empty.
func stateDir(configured string) string {
	switch {
	case configured != "":
		return configured
	case container() != "":
		return filepath.Join(os.TempDir(), "ankka-flow")
	}
	return ""
}
