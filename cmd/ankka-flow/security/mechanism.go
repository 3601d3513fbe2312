package security

import (
	"context"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// mechanism is a sasl.Mechanism that prints without its secrets: they are in
// the closure alone, and fmt prints that as an address.
type mechanism struct {
	name  string
	user  string
	start func(context.Context) (sasl.StateMachine, []byte, error)
}

// Name is the mechanism's, as the broker lists it.
func (m *mechanism) Name() string { return m.name }

// Start begins to authenticate one connection.
func (m *mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return m.start(ctx)
}

// Principal is who the broker takes us for, as its rights name users. Package
// kafka puts it into what it says about a right that is missing.
func (m *mechanism) Principal() string { return "User:" + m.user }

// String names the mechanism and the user, not the password.
func (m *mechanism) String() string { return m.name + " as " + m.user }

type report func(format string, args ...any)

// mechanism checks the SASL settings and makes the mechanism, nil where a
// problem was reported.
func (s *Settings) mechanism(report report) sasl.Mechanism {
	sound := true
	wrong := func(format string, args ...any) {
		sound = false
		report(format, args...)
	}
	name := strings.ToUpper(s.Mechanism)
	switch name {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	case "":
		wrong("sasl.mechanism: it is missing, and Java's default, GSSAPI, is not supported: set PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	case "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM":
		wrong("sasl.mechanism: %s is not supported: set PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
	default:
		wrong("sasl.mechanism: %q is none of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", s.Mechanism)
	}
	for _, v := range []struct{ setting, value string }{
		{"sasl.username (or sasl.jaas.config)", s.Username},
		{"sasl.password (or sasl.jaas.config)", s.Password},
	} {
		switch {
		case v.value == "":
			wrong("%s: it is missing", v.setting)
		case strings.HasSuffix(v.value, "\n"):
			wrong("%s: it ends in a line break, which is probably the end of the file it was read from", v.setting)
		case strings.ContainsRune(v.value, 0):
			wrong("%s: it has a zero byte", v.setting)
		}
	}
	if !sound {
		return nil
	}
	m := &mechanism{name: name, user: s.Username}
	if name == "PLAIN" {
		first := "\x00" + s.Username + "\x00" + s.Password
		m.start = func(context.Context) (sasl.StateMachine, []byte, error) { return answered{}, []byte(first), nil }
		return m
	}
	algorithm := scram.SHA256
	if name == "SCRAM-SHA-512" {
		algorithm = scram.SHA512
	}
	inner, err := scram.Mechanism(algorithm, s.Username, s.Password)
	if err != nil {
		// Its text names the character, which may be one of the password.
		report("sasl.username, sasl.password (or sasl.jaas.config): %s does not allow one of their characters (RFC 4013)", name)
		return nil
	}
	m.start = inner.Start
	return m
}

// answered is PLAIN's session: the broker's first answer is its last.
type answered struct{}

// Next ends the session; a refusal is an error code, which never gets here.
func (answered) Next(context.Context, []byte) (bool, []byte, error) { return true, nil, nil }
