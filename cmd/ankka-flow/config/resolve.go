package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ankka-flow/delivery"
)

// paths are the paths that have a value, sorted.
func (l *loader) paths() []string { return slices.Sorted(maps.Keys(l.values)) }

func (l *loader) text(path string) string { return l.values[path].text }

func (l *loader) bool(path string) bool { return l.values[path].text == "true" }

func (l *loader) int(path string) int {
	n, err := strconv.Atoi(l.values[path].text)
	if err != nil {
		return 0 // a bad text was reported when it was put
	}
	return n
}

func (l *loader) size(path string) int {
	n, _ := parseSize(l.values[path].text) // as for int
	return int(n)
}

func (l *loader) duration(path string) time.Duration {
	d, _ := parseDuration(l.values[path].text) // as for int
	return d
}

func (l *loader) items(path string, separator string) []string {
	if text := l.values[path].text; text != "" {
		return strings.Split(text, separator)
	}
	return nil
}

// resolve types everything. It reports what does not fit together.
func (l *loader) resolve() *Settings {
	s := &Settings{
		File: l.path, BrokerData: l.text("broker-data"), Embedded: l.bool("embedded"),
		Pipeline: l.text("pipeline"), Streamlet: l.text("streamlet"), Descriptor: l.text("descriptor"),
		Watch: l.bool("watch"), WatchPaths: l.items("watch-path", "\n"), Attach: l.bool("--attach"), AttachPath: l.text("FLOW_ATTACH"), UntilEnd: l.bool("until-end"),
		ExitOnFailure: l.bool("exit-on-failure"), Trace: l.text("trace"),
		StateDir: l.text("state-dir"), MetricsPort: l.int("metrics-port"),
		PodName: l.text("pod-name"), PodNamespace: l.text("pod-namespace"),
		LogLevel: l.text("log-level"), LogFormat: l.text("log-format"), Color: l.text("color"),
		PrintConfig: l.bool("--" + PrintConfig),
		Timings: Timings{
			ReconnectMax: l.duration("reconnect-max-backoff"), Discovery: l.duration("discovery-timeout"),
			Process: l.duration("process-timeout"), Batch: l.duration("batch-timeout"), Stop: l.duration("stop-timeout"),
			Write: l.duration("write-timeout"), Stall: l.duration("stall-warning-after"),
		},
		Topics: map[string]string{}, Groups: map[string]string{}, ClientIDs: map[string]string{}, Inputs: map[string]string{},
		Ports: map[string]Port{}, Params: map[string]Secret{}, Errors: map[string]string{}, Inlets: map[string]Consumer{}, Batches: map[string]delivery.BatchLimit{},
		Hidden: l.hidden(), loaded: l,
	}
	l.resolvePorts(s)
	l.resolveBatch(s)
	l.resolveCluster(s)
	l.resolveConsumers(s)
	l.resolveProducer(s)
	return s
}

// resolvePorts fills what is given by a name of the user's choice.
func (l *loader) resolvePorts(s *Settings) {
	for _, path := range l.paths() {
		v := l.values[path]
		section, rest, _ := strings.Cut(path, ".")
		port, name, _ := strings.Cut(rest, ".")
		switch section {
		case "config":
			s.Params[rest] = NewSecret(v.text)
		case "errors":
			s.Errors[rest] = v.text
		case "topics":
			l.port(s, rest, "", v)
			l.topic(s, rest, v)
		case "inlets", "outlets":
			l.port(s, port, strings.TrimSuffix(section, "s"), v)
			switch name {
			case "topic":
				l.topic(s, port, v)
			case "group":
				s.Groups[port] = v.text
			case "client-id":
				s.ClientIDs[port] = v.text
			case "input":
				s.Inputs[port] = v.text
			}
		}
	}
}

// port notes where a port is named, the file before flags: its line says most.
func (l *loader) port(s *Settings, port, kind string, v value) {
	old, ok := s.Ports[port]
	if !ok || old.Kind == "" && kind != "" {
		s.Ports[port] = Port{Kind: kind, Where: v.origin.place()}
	}
}

// topic takes a port's topic from topics or from the port itself.
func (l *loader) topic(s *Settings, port string, v value) {
	for _, section := range []string{"topics.", "inlets.", "outlets."} {
		path := section + port
		if section != "topics." {
			path += ".topic"
		}
		other, ok := l.values[path]
		switch {
		case !ok:
		case other.origin.rank > v.origin.rank:
			return
		case other.origin.rank == fromFile && v.origin.rank == fromFile && other.origin.line < v.origin.line && other.text != v.text:
			l.problems.at(v.origin, "port %s has another topic in line %d; keep one", port, other.origin.line)
			return
		}
	}
	s.Topics[port] = v.text
}

// resolveBatch takes the limits of a batch, and those of single inlets.
func (l *loader) resolveBatch(s *Settings) {
	s.MaxRecords, s.MaxBytes = l.int("batch.max-records"), l.size("batch.max-bytes")
	for _, path := range l.ports() {
		port, _ := strings.CutPrefix(path, "inlets.")
		limit := delivery.BatchLimit{MaxRecords: l.int(path + ".batch.max-records"), MaxBytes: l.size(path + ".batch.max-bytes")}
		if limit != (delivery.BatchLimit{}) {
			s.Batches[port] = limit
		}
	}
}
