package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// Probe connects to one bootstrap broker after another until one answers:
// TCP, TLS, SASL and a Metadata request. The error names each address with the
// likely cause, for a person to act on. It takes a few seconds at most, less
// when ctx ends. kafka-go's own data requests say only "topic not found" in
// all these cases (kafka-go.md, section 8.1), which is why this exists.
func (c *Client) Probe(ctx context.Context) error {
	var errs []error
	for _, addr := range c.cfg.Brokers {
		one, cancel := context.WithTimeout(ctx, metadataTimeout)
		body := appendInt32(nil, 0) // no topic
		src, err := c.requestAt(one, addr, metadataKey, metadataVersion, append(body, 0, 0, 0), nil)
		cancel()
		if err == nil {
			var a metadataAnswer
			if a, err = decodeMetadata(src); err == nil {
				c.learnBrokers(a.brokers)
				return nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", c.likelyCause(err), err))
	}
	return fmt.Errorf("no Kafka broker can be reached: %w", errors.Join(errs...))
}

// likelyCause says what such an error usually means with this configuration.
func (c *Client) likelyCause(err error) string {
	if s := tlsCause(err); s != "" {
		return s
	}
	var dns *net.DNSError
	var code kafkago.Error
	switch {
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)"
	case errors.As(err, &code):
		return c.codeCause(code)
	case isTimeout(err) && c.cfg.TLS != nil:
		return "no answer in time: a firewall, a wrong address, a port that does not speak TLS, or a broker that hangs"
	case isTimeout(err):
		return "no answer in time: a firewall, a wrong address, or a broker that hangs"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return c.hangUpCause()
	}
	return "the connection failed"
}

func tlsCause(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	text := err.Error()
	switch {
	case errors.As(err, &unknown):
		return "TLS: the broker's certificate is not signed by a known authority (ssl.truststore)"
	case errors.As(err, &name):
		return "TLS: the broker's certificate is for another host name"
	case errors.As(err, &invalid):
		return "TLS: the broker's certificate is not valid"
	case errors.As(err, &record):
		return "TLS: the port does not speak TLS (security.protocol)"
	case strings.Contains(text, "expecting TLS"):
		return "the port expects TLS, and this connection is plain (security.protocol)"
	case strings.Contains(text, "remote error: tls:"):
		return "TLS: the broker refused the handshake; it may want a client certificate (ssl.keystore)"
	}
	return ""
}

func (c *Client) codeCause(code kafkago.Error) string {
	switch code {
	case kafkago.SASLAuthenticationFailed:
		return "SASL: the user name or password is wrong"
	case kafkago.UnsupportedSASLMechanism:
		return "SASL: the broker does not offer this mechanism (sasl.mechanism)"
	case kafkago.IllegalSASLState:
		return "SASL: the port does not want SASL (security.protocol)"
	}
	return "the broker refused"
}

// hangUpCause: the broker closed the connection without a word, which is how
// they answer what they do not understand.
func (c *Client) hangUpCause() string {
	switch {
	case c.cfg.TLS == nil && c.cfg.SASL == nil:
		return "the broker hung up: the port probably expects TLS or SASL (security.protocol)"
	case c.cfg.TLS == nil:
		return "the broker hung up: the port probably expects TLS (security.protocol), or SASL refused the user name or password"
	case c.cfg.SASL == nil:
		return "the broker hung up: the port probably does not speak TLS, or expects SASL (security.protocol)"
	}
	return "the broker hung up: SASL probably refused the user name or password, or the port does not speak TLS"
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// closeGrace bounds how long Close waits for kafka-go to let go of connections
// that are already cut.
const closeGrace = 5 * time.Second
