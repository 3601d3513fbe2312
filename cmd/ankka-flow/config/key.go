package config

import (
	"slices"
	"strings"
)

// Kind is the type of a setting's text.
type Kind uint8

const (
	// Text is any text; where it names something, Check says what is allowed.
	Text Kind = iota
	// List is texts separated by commas, in the file also a sequence.
	List
	// Lines is texts, one a line in the environment, a flag that may be repeated,
	// in the file a sequence.
	Lines
	// Pairs is NAME=VALUE, a flag that may be repeated, one a line in the
	// environment; in the file the row's path has the name in it.
	Pairs
	// Bool is true or false.
	Bool
	// Int is a whole number.
	Int
	// Duration is a number and a unit, as 500ms, 30s or 5m.
	Duration
	// Size is bytes, or a number and a unit, as 64KiB or 1 MiB.
	Size
	// Path is a file or folder. In the configuration file it is relative to the
	// folder of that file, elsewhere to the working directory.
	Path
	// Choice is one of the row's Choices.
	Choice
)

// String is the type as the documentation names it.
func (k Kind) String() string {
	return [...]string{"text", "list", "list", "NAME=VALUE", "true or false", "number", "duration", "size", "path", "choice"}[k]
}

// Key is one setting: a row of the table that everything else is made from.
type Key struct {
	// Section is where the key stands in the file, with <placeholders>; empty: at
	// the top. Name is its name there; empty: it cannot be in the file.
	Section, Name string
	// Flag is the long flag without hyphens, and Short its letter; empty: none.
	Flag, Short string
	// Commands have the flag; nil: all.
	Commands []string
	// Env is the variable, for every command; empty: FLOW_<FLAG>, for those that have
	// the flag, or none where there is no flag.
	Env string
	// FlagOnly: the flag has no variable, for that name means something else.
	FlagOnly bool
	// Kind, with Choices, is the type.
	Kind    Kind
	Choices []string
	// Unit is that of a bare number, for the documentation.
	Unit string
	// Least is the smallest value of an Int (as it is), a Size (bytes) or a
	// Duration (milliseconds).
	Least int64
	// Default is the value without any; empty: the meaning says what then.
	Default string
	// Meaning is what it does, for help and documentation.
	Meaning string
	// Form is what the flag takes, for a Pairs, as PORT=TOPIC.
	Form string
	// Empty allows an empty text.
	Empty bool
	// Secret is never shown.
	Secret bool
	// Check judges a text further; "" is good, otherwise what is wrong.
	Check func(text string) string
}

// Path is the key's whole name in the file, with <placeholders>.
func (k *Key) Path() string {
	if k.Section == "" {
		return k.Name
	}
	return k.Section + "." + k.Name
}

// Variable is the environment variable that sets it, or "".
func (k *Key) Variable() string {
	if k.Env == "" && k.Flag != "" && !k.FlagOnly {
		return EnvironmentName(k.Flag)
	}
	return k.Env
}

// EnvironmentName is the variable of a flag: FLOW_<FLAG>.
func EnvironmentName(flag string) string {
	return "FLOW_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Usage is the help text of a flag of the table.
func (k *Key) Usage() string {
	text := k.Meaning
	if k.Kind == Pairs || k.Kind == Lines {
		text += "; may be given several times"
	}
	return text
}

// Has reports whether a command has the key's flag.
func (k *Key) Has(command string) bool {
	if k.Commands == nil {
		return true
	}
	for _, c := range k.Commands {
		if c == command {
			return true
		}
	}
	return false
}

var onlyRun = []string{"run"}

// PrintConfig is the flag that prints the result, which is no setting.
const PrintConfig = "print-config"

// Keys is every setting, in the order of the documentation and of --print-config.
// The names of the Java client are in JavaKeys.
var Keys = slices.Concat(keysOfRun, errorKeys(), keysOfPorts)

// keysOfRun are those of a run as a whole.
var keysOfRun = []Key{
	{Flag: "config", Short: "c", Kind: Path, Meaning: "configuration file, YAML or JSON"},
	{Env: "FLOW_CONFIG_DIR", Kind: Path, Meaning: "folder with flow.yaml, flow.yml or flow.json, where no file is named"},

	{Name: "bootstrap.servers", Flag: "brokers", Short: "b", Kind: List, Check: checkAddress, Meaning: "Kafka brokers, host:port, separated by commas (default: an embedded broker, for development)"},
	{Name: "embedded", Flag: "embedded", Commands: onlyRun, Kind: Bool, Default: "false", Meaning: "use the embedded broker also where it is not chosen by itself"},
	{Name: "broker-data", Flag: "broker-data", Commands: []string{"run", "produce", "consume", "topics", "groups", "dead-letters"}, Kind: Path, Default: ".ankka-flow/broker", Meaning: "directory of the embedded broker's data"},

	{Name: "pipeline", Flag: "pipeline", Commands: onlyRun, Kind: Text, Check: checkName, Meaning: "name of the pipeline (default: the streamlet's)"},
	{Name: "streamlet", Env: "FLOW_STREAMLET", Kind: Text, Check: checkName, Meaning: "name of the streamlet in the pipeline (default: the one it declares). Processes see the variable too"},
	{Name: "descriptor", Flag: "descriptor", Commands: onlyRun, Kind: Path, Meaning: "deployed descriptor that the process must match"},
	{Section: "topics", Name: "<port>", Flag: "topic", Commands: onlyRun, Kind: Pairs, Form: "PORT=TOPIC", Check: checkTopic, Meaning: "topic of a port, PORT=TOPIC (default: PIPELINE.PORT)"},
	{Section: "config", Name: "<parameter>", Flag: "param", Commands: onlyRun, Kind: Pairs, Form: "KEY=VALUE", Empty: true, Meaning: "parameter of the streamlet, KEY=VALUE"},
}

// keysOfPorts are those of single ports, and all that is left.
var keysOfPorts = []Key{
	{Section: "inlets.<inlet>", Name: "topic", Kind: Text, Check: checkTopic, Meaning: "topic that the inlet reads (default: PIPELINE.INLET)"},
	{Section: "inlets.<inlet>", Name: "group", Kind: Text, Check: checkGroup, Meaning: "consumer group (default: PIPELINE.STREAMLET.INLET)"},
	{Section: "inlets.<inlet>", Name: "client-id", Kind: Text, Meaning: "client id of its requests, and of its figures (default: PIPELINE.STREAMLET.INLET)"},
	{Section: "inlets.<inlet>", Name: "input", Flag: "input", Commands: onlyRun, Kind: Pairs, Form: "INLET=FILE", Meaning: "file of records as JSON lines for an inlet, INLET=FILE, written when its topic is empty"},
	{Section: "inlets.<inlet>", Name: "bootstrap.servers", Kind: List, Check: checkAddress, Meaning: "brokers of this inlet: one supervisor speaks to one cluster, so all that are given must be equal"},
	{Section: "inlets.<inlet>", Name: "batch.max-records", Kind: Int, Least: 1, Meaning: "most records of a batch of this inlet (default: batch.max-records)"},
	{Section: "inlets.<inlet>", Name: "batch.max-bytes", Kind: Size, Unit: "bytes", Least: 1, Meaning: "most bytes of a batch of this inlet (default: batch.max-bytes)"},
	{Section: "outlets.<outlet>", Name: "topic", Kind: Text, Check: checkTopic, Meaning: "topic that the outlet writes (default: PIPELINE.OUTLET)"},
	{Section: "outlets.<outlet>", Name: "client-id", Kind: Text, Meaning: "client id of its figures (default: PIPELINE.STREAMLET.OUTLET); the requests of all outlets are of one producer and carry the connection's"},
	{Section: "outlets.<outlet>", Name: "bootstrap.servers", Kind: List, Check: checkAddress, Meaning: "brokers of this outlet: as for an inlet"},

	{Section: "batch", Name: "max-records", Kind: Int, Least: 1, Meaning: "most records of a batch (default: adaptive, from 100 to 1,000)"},
	{Section: "batch", Name: "max-bytes", Kind: Size, Unit: "bytes", Least: 1, Default: "1 MiB", Meaning: "most bytes of keys, values and headers in a batch; a single larger record goes alone"},

	{Name: "watch", Flag: "watch", Short: "w", Commands: onlyRun, Kind: Bool, Default: "false", Meaning: "start the process again when its files change"},
	{Name: "watch-path", Flag: "watch-path", Commands: onlyRun, Kind: Lines, Meaning: "file or folder to watch (default: the folders of the files that the command names)"},
	{Flag: "attach", FlagOnly: true, Commands: onlyRun, Kind: Bool, Default: "false", Meaning: "launch nothing: a program that is started by hand, in a debugger say, attaches by itself"},
	{Env: "FLOW_ATTACH", Kind: Path, Default: ".ankka-flow/attach.sock", Meaning: "Unix socket at which programs attach; a program started by hand looks for it by the same variable, otherwise in its folder and upwards"},
	{Name: "until-end", Flag: "until-end", Commands: onlyRun, Kind: Bool, Default: "false", Meaning: "stop when everything that the inlets held at the start is committed"},
	{Name: "exit-on-failure", Flag: "exit-on-failure", Commands: onlyRun, Kind: Bool, Default: "false", Meaning: "end at the first failure instead of starting again"},
	{Name: "trace", Flag: "trace", Commands: onlyRun, Kind: Path, Meaning: "file that gets every frame as a JSON line, with sizes in place of keys, values and what headers and parameters hold; their names are in it"},

	{Name: "reconnect-max-backoff", Env: "FLOW_RECONNECT_MAX_BACKOFF", Kind: Duration, Least: 500, Default: "30s", Meaning: "where the wait between a failure and the next conversation, and that for the next try of a record that fails, stop doubling from 500 ms"},
	{Name: "discovery-timeout", Env: "FLOW_DISCOVERY_TIMEOUT", Kind: Duration, Least: 1, Default: "60s", Meaning: "how long the process may take to describe itself; then it is killed"},
	{Name: "process-timeout", Env: "FLOW_PROCESS_TIMEOUT", Kind: Duration, Least: 1, Default: "60s", Meaning: "how long the process may be unreachable; then it is killed"},
	{Name: "batch-timeout", Env: "FLOW_BATCH_TIMEOUT", Kind: Duration, Default: "0s", Meaning: "how long the process may take for a batch before it is killed; 0: as long as it wants"},
	{Name: "stop-timeout", Env: "FLOW_STOP_TIMEOUT", Kind: Duration, Least: 1, Default: "25s", Meaning: "how long a stop may take in all"},
	{Name: "write-timeout", Env: "FLOW_WRITE_TIMEOUT", Kind: Duration, Least: 1, Default: "120s", Meaning: "how long the outcome of a write may stay unknown before the stream fails"},
	{Name: "stall-warning-after", Env: "FLOW_STALL_WARNING_AFTER", Kind: Duration, Default: "5m", Meaning: "how long a partition may be stuck before PartitionStalled is said; 0: never"},
	{Name: "session-timeout", Env: "FLOW_SESSION_TIMEOUT", Kind: Duration, Least: 1000, Meaning: "session.timeout.ms of every inlet (default: 45s, on the embedded broker 6s)"},

	{Name: "state-dir", Flag: "state-dir", Commands: []string{"probe"}, Env: "FLOW_STATE_DIR", Kind: Path, Meaning: "folder of the supervisor's files ready and alive (default: .ankka-flow/run/NAME, in a container one of the temporary folder)"},
	{Name: "metrics-port", Flag: "metrics-port", Commands: onlyRun, Kind: Int, Default: "2050", Check: checkPort, Meaning: "port of the metrics, the probes and the status page, 0: none; outside containers the next free one is taken"},
	{Name: "pod-name", Env: "FLOW_POD_NAME", Kind: Text, Meaning: "name of the pod, for its events. Processes see the variable too"},
	{Name: "pod-namespace", Env: "FLOW_POD_NAMESPACE", Kind: Text, Meaning: "namespace of the pod. Processes see the variable too"},

	{Name: "log-level", Flag: "log-level", Kind: Choice, Choices: []string{"debug", "info", "warn", "error"}, Default: "info", Meaning: "debug, info, warn or error"},
	{Name: "log-format", Flag: "log-format", Kind: Choice, Choices: []string{"auto", "text", "json"}, Default: "auto", Meaning: "auto (text on a terminal, JSON elsewhere), text or json"},
	{Name: "color", Flag: "color", Kind: Choice, Choices: []string{"auto", "always", "never"}, Default: "auto", Meaning: "auto, always or never"},
	{Flag: PrintConfig, Commands: onlyRun, Kind: Bool, Default: "false", Meaning: "print the configuration with the origin of each value, secrets hidden, and end"},
}

// KeyOfFlag finds a flag in Keys; nil: it is an argument of its command and no
// setting.
func KeyOfFlag(flag string) *Key {
	for i := range Keys {
		if Keys[i].Flag == flag {
			return &Keys[i]
		}
	}
	return nil
}

// keyOfPath finds the row of a path without placeholders.
func keyOfPath(path string) *Key {
	for i := range Keys {
		if Keys[i].Name != "" && matches(Keys[i].Path(), path) {
			return &Keys[i]
		}
	}
	return nil
}

// matches compares a path with a pattern, in which <x> stands for one word.
func matches(pattern, path string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(path, ".")
	for i, w := range want {
		switch {
		case i >= len(have) || have[i] == "":
			return false
		case strings.HasPrefix(w, "<"):
		case w != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
