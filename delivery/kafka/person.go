package kafka

import (
	"errors"
	"log/slog"
)

// NeedsPerson reports whether what an error of this package says stays until a
// person changes a setting, a right or the cluster: a wrong password or
// certificate, a port that speaks another protocol, a right that is missing.
// A broker that is away, starts or hangs, a topic that is not there yet and a
// host name that is not known yet may come by themselves and need nobody before
// they last. Every error is tried again all the same.
func NeedsPerson(err error) bool {
	var unreachable *UnreachableError
	if errors.As(err, &unreachable) {
		for _, e := range unreachable.Errs {
			if NeedsPerson(e) {
				return true
			}
		}
		return false
	}
	var connect *ConnectError
	if errors.As(err, &connect) {
		return connect.Lasting
	}
	var code *CodeError
	return errors.As(err, &code) && lastingCode(code.Code)
}

// lastingCode: a broker that answers so will, until a person has acted.
func lastingCode(code int16) bool {
	switch code {
	case codeTopicAuthorization, codeGroupAuthorization, codeClusterAuthorization,
		codeInvalidTopic, codeUnsupportedMechanism, codeIllegalSASLState, codeUnsupportedVersion,
		codePolicyViolation, codeSecurityDisabled, codeAuthenticationFailed, codeUnsupportedCompression:
		return true
	}
	return false
}

// levelOf is the level at which trouble is said: an error needs a person.
func levelOf(lasting bool) slog.Level {
	if lasting {
		return slog.LevelError
	}
	return slog.LevelWarn
}
