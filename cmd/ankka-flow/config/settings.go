package config

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"ankka-flow/cmd/ankka-flow/security"
	"ankka-flow/delivery"
	flowkafka "ankka-flow/delivery/kafka"
)

// Settings are a resolved configuration: every value typed, every default in
// place, every file of secrets read. They may be printed and logged: secrets show
// as ***.
type Settings struct {
	// File is the configuration file; empty: none.
	File string

	// Brokers are bootstrap addresses; empty: the embedded broker. With Embedded
	// they are empty, and so are TLS and SASL: who asks for the embedded broker
	// where the file names another means the embedded one.
	Brokers []string
	// BrokersInDoubt: the file seems to name brokers, in a way that is among the
	// problems, so that having none is not another one.
	BrokersInDoubt bool
	Embedded       bool
	// BrokerData is the embedded broker's folder.
	BrokerData string
	// ClientID is sent where a port has none of its own.
	ClientID string
	// RequestTimeout and DialTimeout are kafka.Config's; 0: its defaults.
	RequestTimeout, DialTimeout time.Duration
	// TLS and SASL are what to connect with; nil: without. Security is what they
	// were made from.
	TLS      *tls.Config
	SASL     sasl.Mechanism
	Security *security.Settings

	// Pipeline and Streamlet are names; empty: those that discovery gives.
	Pipeline, Streamlet string
	// Descriptor is the file of the deployed descriptor; empty: none.
	Descriptor string
	// Topics and ClientIDs are by port, Groups and Inputs by inlet. A port without
	// one has its default.
	Topics, Groups, ClientIDs, Inputs map[string]string
	// Ports are the ports that are named, with the place of the first mention.
	Ports map[string]Port
	// Params are the streamlet's parameters as text.
	Params map[string]Secret
	// Errors are the settings of the streamlet's error handling, name and text, for
	// the protocol's start.
	Errors map[string]string

	// MaxRecords bounds a batch; 0: adaptive. MaxBytes bounds its bytes.
	// Batches has what single inlets say.
	MaxRecords, MaxBytes int
	Batches              map[string]delivery.BatchLimit
	// Consumer holds for inlets that Inlets does not name.
	Consumer Consumer
	Inlets   map[string]Consumer
	Producer Producer
	Timings  Timings

	Watch      bool
	WatchPaths []string
	Attach     bool
	// AttachPath is the socket of Attach.
	AttachPath    string
	UntilEnd      bool
	ExitOnFailure bool
	// Trace is the file of --trace; empty: none.
	Trace string

	// StateDir is the folder of ready and alive; empty: the default. MetricsPort 0
	// is none.
	StateDir              string
	MetricsPort           int
	PodName, PodNamespace string

	LogLevel, LogFormat, Color string
	// PrintConfig: what Print gives was asked for.
	PrintConfig bool

	// Hidden are the variables that the file's ${...} looked up, which the process
	// does not get.
	Hidden []string

	// loaded is what Print prints. It is behind a pointer, where fmt does not look
	// into it: it has the secrets.
	loaded *loader
}

// Port is a port that the configuration names.
type Port struct {
	// Kind is "inlet", "outlet", or empty where either is meant.
	Kind string
	// Where is the place, as "flow.yaml:3" or "--topic".
	Where string
}

// Consumer is how an inlet reads: the fields of kafka.Inlet that can be configured.
type Consumer struct {
	ClientID, InstanceID string
	// SessionTimeout 0: the broker's kind decides.
	SessionTimeout time.Duration
	// Assignors nil: kafka.Inlet's default.
	Assignors                    []string
	StartLatest, ReadUncommitted bool
	Reset                        flowkafka.ResetPolicy
}

// Producer is how outlets write: the fields of kafka.ProducerConfig that can be
// configured besides Timings.Write.
type Producer struct {
	Compression kafka.Compression
	// MaxBatchBytes 0: the default.
	MaxBatchBytes int
}

// Timings are the waits. Keys has their meaning.
type Timings struct {
	ReconnectMax, Discovery, Process, Batch, Stop, Write, Stall time.Duration
}

// SecretParams are the parameters whose text may not be shown.
func (s *Settings) SecretParams() map[string]bool {
	secret := map[string]bool{}
	for name := range s.Params {
		path := "config." + name
		secret[name] = secretName(path) || s.loaded.values[path].brought()
	}
	return secret
}

// Inlet is how an inlet reads.
func (s *Settings) Inlet(port string) Consumer {
	if c, ok := s.Inlets[port]; ok {
		return c
	}
	return s.Consumer
}

// PlainParams are the parameters' texts, for who resolves them.
func (s *Settings) PlainParams() map[string]string {
	plain := make(map[string]string, len(s.Params))
	for name, p := range s.Params {
		plain[name] = p.Reveal()
	}
	return plain
}

// Flag is what a flag that was not given should be set to, value by value; nil: it
// keeps its default. Flags of NAME=VALUE have none: they are in the maps.
func (s *Settings) Flag(name string) []string {
	k := KeyOfFlag(name)
	if k == nil || k.Kind == Pairs {
		return nil
	}
	v, ok := s.loaded.values[k.id()]
	if !ok || v.origin.rank == fromDefault || v.text == "" {
		return nil
	}
	switch {
	case name == "embedded" && !s.Embedded, name == "brokers" && s.Embedded:
		return nil // the other one was chosen
	case name == "brokers":
		return s.Brokers
	case k.Kind == Lines:
		return strings.Split(v.text, "\n")
	}
	return []string{v.text}
}
