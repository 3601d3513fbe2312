package security

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
)

// Settings are the security settings of a connection, as the configuration
// holds them: contents, not the names of files. The zero value is a plain
// connection without authentication.
//
// A Settings prints without its secrets under every verb of fmt, in slog and
// in JSON. Keep it by pointer or in exported fields: fmt looks past these
// methods in an unexported field.
type Settings struct {
	// Protocol is security.protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL,
	// in any case; empty: PLAINTEXT.
	Protocol string
	// Mechanism is sasl.mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Java's
	// default, GSSAPI, is not supported, so it must be given where SASL is used.
	Mechanism string
	// Username and Password are those of sasl.jaas.config, or of sasl.username
	// and sasl.password.
	Username, Password string
	// Truststore has the authorities' certificates, PEM, of
	// ssl.truststore.location or ssl.truststore.certificates; empty: the
	// system's.
	Truststore []byte
	// Certificate is our own certificate and its chain, PEM, of
	// ssl.keystore.location or ssl.keystore.certificate.chain; empty: none. It
	// may hold the key as well.
	Certificate []byte
	// Key is our private key, PEM, of ssl.keystore.location or
	// ssl.keystore.key; empty: the key is in Certificate.
	Key []byte
	// KeyPassword is ssl.key.password, for a key that is encrypted.
	KeyPassword string
	// SkipHostname is set by an empty ssl.endpoint.identification.algorithm: the
	// broker's certificate may be for any host. The chain is still checked.
	SkipHostname bool
}

const hidden = "(hidden)"

// shown is a Settings without secrets, under a type without methods.
func (s Settings) shown() string {
	var b strings.Builder
	add := func(name, value string) {
		if value == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", name, value)
	}
	secret := func(name string, has bool) {
		if has {
			add(name, hidden)
		}
	}
	add("security.protocol", s.Protocol)
	add("sasl.mechanism", s.Mechanism)
	add("sasl.username", s.Username)
	secret("sasl.password", s.Password != "")
	if len(s.Truststore) > 0 {
		add("ssl.truststore.certificates", fmt.Sprintf("(%d bytes)", len(s.Truststore)))
	}
	// The certificate's text may hold the key.
	secret("ssl.keystore.certificate.chain", len(s.Certificate) > 0)
	secret("ssl.keystore.key", len(s.Key) > 0)
	secret("ssl.key.password", s.KeyPassword != "")
	if s.SkipHostname {
		add("ssl.endpoint.identification.algorithm", `""`)
	}
	return b.String()
}

// String gives the settings without their secrets.
func (s Settings) String() string { return s.shown() }

// Format gives the settings without their secrets, whatever the verb.
func (s Settings) Format(f fmt.State, _ rune) { io.WriteString(f, s.shown()) }

// LogValue gives the settings without their secrets.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.shown()) }

// MarshalText gives the settings without their secrets, to JSON and YAML too.
func (s Settings) MarshalText() ([]byte, error) { return []byte(s.shown()), nil }

// Client gives what to connect with: a TLS configuration (nil: no TLS) and a
// SASL mechanism (nil: no SASL), for kafka.Config. Problems has every mistake
// at once, for the person who wrote the configuration, each naming the Java
// setting to mend; where there is one, the other two results are not to be
// used. Certificates are checked against today's date.
func (s *Settings) Client() (*tls.Config, sasl.Mechanism, []string) {
	return s.clientAt(time.Now())
}

func (s *Settings) clientAt(now time.Time) (*tls.Config, sasl.Mechanism, []string) {
	var problems []string
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	protocol := strings.ToUpper(s.Protocol)
	useTLS, useSASL := false, false
	switch protocol {
	case "", "PLAINTEXT":
		protocol = "PLAINTEXT"
	case "SSL":
		useTLS = true
	case "SASL_PLAINTEXT":
		useSASL = true
	case "SASL_SSL":
		useTLS, useSASL = true, true
	default:
		report("security.protocol: %q is none of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL", s.Protocol)
		// What else is set is still looked at.
		useTLS, useSASL = s.hasTLS(), s.hasSASL()
	}
	var config *tls.Config
	var mechanism sasl.Mechanism
	switch {
	case useTLS:
		config = s.tlsConfig(now, report)
	case s.hasTLS():
		report("security.protocol: it is %s, which does not use TLS, but %s is set: set SSL or SASL_SSL, or leave that out", protocol, s.firstTLS())
	}
	switch {
	case useSASL:
		mechanism = s.mechanism(report)
	case s.hasSASL():
		report("security.protocol: it is %s, which does not use SASL, but %s is set: set SASL_SSL or SASL_PLAINTEXT, or leave that out", protocol, s.firstSASL())
	}
	if len(problems) > 0 {
		return nil, nil, problems
	}
	return config, mechanism, nil
}

func (s *Settings) hasTLS() bool { return s.firstTLS() != "" }

// firstTLS names a setting that only TLS uses and that is set.
func (s *Settings) firstTLS() string {
	switch {
	case len(s.Truststore) > 0:
		return "ssl.truststore.location (or .certificates)"
	case len(s.Certificate) > 0:
		return "ssl.keystore.location (or .certificate.chain)"
	case len(s.Key) > 0:
		return "ssl.keystore.key"
	case s.KeyPassword != "":
		return "ssl.key.password"
	case s.SkipHostname:
		return "ssl.endpoint.identification.algorithm"
	}
	return ""
}

func (s *Settings) hasSASL() bool { return s.firstSASL() != "" }

// firstSASL names a setting that only SASL uses and that is set.
func (s *Settings) firstSASL() string {
	switch {
	case s.Mechanism != "":
		return "sasl.mechanism"
	case s.Username != "":
		return "sasl.username (or sasl.jaas.config)"
	case s.Password != "":
		return "sasl.password (or sasl.jaas.config)"
	}
	return ""
}
