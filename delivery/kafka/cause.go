package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// cause says what a failure to connect usually means with this configuration.
// The text has no time and no port of ours, so that it is the same each time.
// lasting: it stays so until a person has changed something.
func (c *Client) cause(ctx context.Context, x *connecting, err error) (text string, lasting bool) {
	var dns *net.DNSError
	var code kafkago.Error
	var foreign *ForeignClusterError
	switch {
	case errors.As(err, &foreign):
		return foreign.Error(), true
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("the host name %s is not known", dns.Name), false
	case errors.As(err, &dns):
		return fmt.Sprintf("the host name %s cannot be resolved: %s", dns.Name, dns.Err), false
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused)", false
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it", false
	case errors.As(err, &code):
		return c.codeCause(x, code), lastingCode(int16(code))
	}
	if text = cmp.Or(c.certificateCause(err), c.alertCause(err), x.wrongPort(err)); text != "" {
		return text, true
	}
	silent, gone := isTimeout(err), isHangUp(err)
	if (silent || gone) && x.step != stepTCP && x.step != stepAuthenticate {
		if text = c.diagnosed(ctx, x); text != "" {
			return text, true
		}
	}
	switch {
	case silent:
		return silentCause(x.step), false
	case gone:
		return c.hangUpCause(x), x.step == stepAuthenticate
	case x.step == stepAuthenticate:
		return "SASL: the exchange failed: " + plainly(err), true
	}
	return x.step + " failed: " + plainly(err), false
}

// silentCause is what it means that a step gets no answer.
func silentCause(step string) string {
	switch step {
	case stepTCP:
		return "no answer in time, not even to TCP: a wrong address, or a firewall"
	case stepTLS:
		return "no answer in time to the TLS handshake: a port that does not speak TLS (security.protocol), or a broker that hangs"
	}
	return "no answer in time to " + step + ": a broker that hangs, or a port that is no Kafka broker's"
}

// certificateCause is about the broker's certificate, and "" where that is not
// the matter. Go's own text has the time of day.
func (c *Client) certificateCause(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		issuer := "an authority without a name"
		if unknown.Cert != nil && unknown.Cert.Issuer.String() != "" {
			issuer = unknown.Cert.Issuer.String()
		}
		return fmt.Sprintf("TLS: the broker's certificate is signed by %s, which is not trusted: put that authority into ssl.truststore.location", issuer)
	case errors.As(err, &name):
		valid := "no host"
		if name.Certificate != nil {
			if hosts := certificateHosts(name.Certificate); hosts != "" {
				valid = hosts
			}
		}
		return fmt.Sprintf("TLS: the broker's certificate is for %s, not for %s: use one of its names in bootstrap.servers and advertised.listeners (or empty ssl.endpoint.identification.algorithm, which gives up that check)", valid, name.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		if time.Now().Before(invalid.Cert.NotBefore) {
			return "TLS: the broker's certificate, or one of its authorities', is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.DateTime) + " UTC: look at the clocks"
		}
		return "TLS: the broker's certificate, or one of its authorities', expired on " + invalid.Cert.NotAfter.UTC().Format(time.DateTime) + " UTC"
	case errors.As(err, &invalid):
		return "TLS: the broker's certificate is not valid: " + invalid.Error()
	}
	return ""
}

func certificateHosts(certificate *x509.Certificate) string {
	hosts := append([]string(nil), certificate.DNSNames...)
	for _, ip := range certificate.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return strings.Join(hosts, ", ")
}

// alertCause is what the broker says against us in TLS's own words.
func (c *Client) alertCause(err error) string {
	text := err.Error()
	at := strings.Index(text, "remote error: tls: ")
	if at < 0 {
		return ""
	}
	alert, _, _ := strings.Cut(text[at+len("remote error: tls: "):], " (")
	own := c.cfg.TLS != nil && (c.cfg.TLS.GetClientCertificate != nil || len(c.cfg.TLS.Certificates) > 0)
	switch alert {
	case "bad certificate", "certificate required", "unknown certificate authority", "unknown certificate",
		"unsupported certificate", "expired certificate", "revoked certificate", "handshake failure", "access denied":
		if !own {
			return fmt.Sprintf("TLS: the broker wants a client certificate (%s): set ssl.keystore.location or ssl.keystore.certificate.chain", alert)
		}
		return fmt.Sprintf("TLS: the broker does not accept our client certificate (%s): look at ssl.keystore.location and at the authorities that the broker trusts", alert)
	case "protocol version not supported":
		return "TLS: the broker has no version from TLS 1.2 on"
	case "internal error":
		return "TLS: the broker has an error of its own (internal error), such as no certificate for this host name"
	}
	return fmt.Sprintf("TLS: the broker refused the handshake (%s)", alert)
}

// wrongPort knows by the first bytes what else listens there.
func (x *connecting) wrongPort(err error) string {
	first := x.first[:min(x.heard, len(x.first))]
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		if string(record.RecordHeader[:]) == "HTTP/" {
			return httpPort
		}
		return tlsLess
	}
	switch {
	case len(first) >= 4 && string(first[:4]) == "HTTP":
		return httpPort
	case len(first) >= 2 && first[0] == 0x15 && first[1] == 3 && x.c.cfg.TLS == nil:
		return tlsWanted
	}
	return ""
}

const (
	httpPort  = "the port speaks HTTP; it is no Kafka broker's"
	tlsLess   = "the port does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the broker's TLS port"
	tlsWanted = "the port expects TLS, and this connection is plain: set security.protocol to SSL or SASL_SSL, or use the broker's plain port"
)

func (c *Client) codeCause(x *connecting, code kafkago.Error) string {
	switch code {
	case kafkago.SASLAuthenticationFailed:
		return "SASL: the broker refuses the user name or the password" + c.as() + ": look at sasl.jaas.config, or sasl.username and sasl.password"
	case kafkago.UnsupportedSASLMechanism:
		offers := ""
		if len(x.offered) > 0 {
			offers = "; it offers " + strings.Join(x.offered, ", ")
		}
		return fmt.Sprintf("SASL: the broker does not offer %s%s: set sasl.mechanism", c.cfg.SASL.Name(), offers)
	case kafkago.IllegalSASLState:
		protocol := "PLAINTEXT"
		if c.cfg.TLS != nil {
			protocol = "SSL"
		}
		return "SASL: the port does not want it: set security.protocol to " + protocol + ", or use the broker's SASL port"
	}
	return fmt.Sprintf("the broker refused %s: [%d] %s", x.step, int(code), code.Title())
}

// as names the user, where the mechanism tells who it is.
func (c *Client) as() string {
	if p := c.principal(); p != "" {
		return " of " + p
	}
	return ""
}

// principal is who the broker takes us for, as its rights name users; "" where
// that is not known.
func (c *Client) principal() string {
	if p, ok := c.cfg.SASL.(interface{ Principal() string }); ok {
		return p.Principal()
	}
	return ""
}

// hangUpCause: the broker closed the connection without a word, which is how
// they answer what they do not understand.
func (c *Client) hangUpCause(x *connecting) string {
	switch {
	case x.step == stepAuthenticate:
		return "SASL: the broker hung up, which is how some refuse a user name or a password" + c.as() + ": look at sasl.jaas.config, or sasl.username and sasl.password"
	case x.step == stepTLS:
		return "the broker hung up in the TLS handshake: the port probably does not speak TLS (security.protocol)"
	case c.cfg.TLS == nil && c.cfg.SASL == nil:
		return "the broker hung up: the port probably expects TLS or SASL (security.protocol)"
	case c.cfg.TLS == nil:
		return "the broker hung up at " + x.step + ": the port probably expects TLS (security.protocol)"
	case c.cfg.SASL == nil:
		return "the broker hung up: the port probably expects SASL (security.protocol)"
	}
	return "the broker hung up at " + x.step
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errHungUp) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

var betweenPorts = regexp.MustCompile(`(tcp|udp)[46]? \S+->\S+: `)

// plainly is an error's text without the two addresses of a connection: ours
// has another port each time, and the broker's is named already.
func plainly(err error) string { return betweenPorts.ReplaceAllString(err.Error(), "") }

// splitHostPort is net.SplitHostPort for addresses that were checked.
func splitHostPort(address string) (host string, port int) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	port, _ = strconv.Atoi(text) // a name of a port has no number to tell
	return host, port
}
