package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxNextPorts is how many ports behind the wanted one are tried.
const maxNextPorts = 100

// Listen takes the port, or, with next, the first that is free from it on, and
// any free one when a hundred are not. public listens on every address, for the
// probes and the scrapes of a cluster; otherwise nobody but this machine can
// ask. The error is of the wanted port.
func Listen(port int, public, next bool) (net.Listener, error) {
	host := "127.0.0.1"
	if public {
		host = ""
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	for n := 1; next && errors.Is(err, syscall.EADDRINUSE) && n <= maxNextPorts; n++ {
		try := port + n
		if n == maxNextPorts || try > 65535 {
			try = 0
		}
		var again error
		if l, again = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(try))); again == nil {
			return l, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listening for metrics and probes: %w", err)
	}
	return l, nil
}

// Commands are command lines, for people.
type Commands struct {
	// Process is the process's.
	Process string
	// Connect are the flags by which ankka-flow's own commands reach the broker,
	// such as "-b kafka:9092"; empty: they find it without.
	Connect string
}

// view is what the pages are made of.
type view struct {
	keeper   *Keeper
	build    Build
	commands Commands
	metrics  http.Handler
}

// Server answers over HTTP: /metrics, /readyz, /livez, /status.json and a page
// for people. It answers GET and HEAD, and no request changes anything.
type Server struct {
	http     *http.Server
	listener net.Listener
	wg       sync.WaitGroup
}

// Serve answers on a listener, which is the Server's from now on, until Close.
func Serve(l net.Listener, k *Keeper, build Build, commands Commands, log *slog.Logger) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{keeper: k, build: build})
	v := &view{
		keeper: k, build: build, commands: commands,
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(log.With("event", "status").Handler(), slog.LevelWarn),
			// One series that is wrong must not hide all others.
			ErrorHandling: promhttp.ContinueOnError,
		}),
	}
	s := &Server{listener: l, http: &http.Server{
		Handler:           v.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.With("event", "status").Handler(), slog.LevelDebug),
	}}
	s.wg.Go(func() { // ends with Close, which awaits it
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn(fmt.Sprintf("metrics and probes are answered no more: %v", err), "event", "status")
		}
	})
	return s
}

// Port is what the server listens on.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Close ends the server. Who is being answered gets a second.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	s.wg.Wait()
}

// handler is every page.
func (v *view) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", v.metrics)
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		answer(w, v.keeper.watch.Ready() && v.keeper.AliveNow(r.Context()), "ready", "not ready: "+v.notReady())
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, r *http.Request) {
		answer(w, v.keeper.AliveNow(r.Context()), "alive", fmt.Sprintf("not alive: the supervisor's loop has not turned for %v", AliveWithin))
	})
	mux.HandleFunc("/status.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(v.status(r.Context())) // an error is of the connection
	})
	mux.HandleFunc("/{$}", v.page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ready is the core's word, as long as its loop turns.
func (v *view) ready() bool { return v.keeper.watch.Ready() && v.keeper.Alive() }

// notReady says why not, in a few words.
func (v *view) notReady() string {
	s := v.keeper.lastSnapshot()
	switch {
	case !v.keeper.Alive():
		return "the supervisor's loop does not turn"
	case s == nil:
		return "starting"
	case s.AwaitsSave:
		return "it waits for a save, or under --attach for a program"
	}
	return "the conversation is " + s.State.String()
}

// answer is 200 or 503 with a line of text.
func answer(w http.ResponseWriter, good bool, yes, no string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := yes
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = no
	}
	_, _ = fmt.Fprintln(w, text) // an error is of the connection
}
