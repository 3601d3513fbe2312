package security

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"
)

const (
	trustSetting = "ssl.truststore.location (or ssl.truststore.certificates)"
	chainSetting = "ssl.keystore.location (or ssl.keystore.certificate.chain)"
	keySetting   = "ssl.keystore.location (or ssl.keystore.key)"
)

// tlsConfig checks the TLS settings and makes the configuration. The server's
// name is left open: each connection checks the host that it dialled.
func (s *Settings) tlsConfig(now time.Time, report report) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots(report)}
	if len(s.Certificate) > 0 || len(s.Key) > 0 {
		if own := s.own(now, report); own != nil {
			// Also where the broker's list of authorities does not have ours: its
			// refusal says more than none at all. And fmt prints a function as an
			// address, but a key in Certificates with its bytes.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
		}
	} else if s.KeyPassword != "" {
		report("ssl.key.password: it is set, but there is no key: set ssl.keystore.location or ssl.keystore.key, or leave it out")
	}
	if s.SkipHostname {
		config.InsecureSkipVerify = true // replaced by:
		config.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, config.RootCAs) }
	}
	return config
}

// verifyChain is Go's own check without that of the host name.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the broker sent no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

// roots are the authorities that are trusted; nil: the system's.
func (s *Settings) roots(report report) *x509.CertPool {
	if len(s.Truststore) == 0 {
		return nil
	}
	if what := keystoreFormat(s.Truststore); what != "" {
		report("%s: it is %s, and only PEM is supported: set ssl.truststore.type to PEM and give the certificates as PEM (keytool -exportcert -rfc writes them)", trustSetting, what)
		return nil
	}
	certificates := parseChain(s.Truststore, trustSetting, report)
	if certificates == nil {
		return nil
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool
}

// parseChain reads every certificate of a PEM text, in order; nil where a
// problem was reported.
func parseChain(text []byte, setting string, report report) []*x509.Certificate {
	var out []*x509.Certificate
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			report("%s: certificate %d cannot be read: %v", setting, len(out)+1, err)
			return nil
		}
		out = append(out, c)
	}
	switch {
	case len(out) > 0 && len(out) == bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")):
		return out
	case len(out) > 0:
		report("%s: after %d certificates comes one that is damaged or cut off", setting, len(out))
	case bytes.Contains(text, []byte("BEGIN CERTIFICATE-----")):
		report("%s: its certificate is damaged or cut off; inside JSON or YAML the line breaks may be lost", setting)
	default:
		report("%s: it has no PEM certificate (-----BEGIN CERTIFICATE-----)", setting)
	}
	return nil
}

// own is our certificate with its key; nil where a problem was reported.
func (s *Settings) own(now time.Time, report report) *tls.Certificate {
	text, keyText := s.Certificate, s.Key
	for _, t := range [][]byte{text, keyText} {
		if what := keystoreFormat(t); what != "" {
			report("%s: it is %s, and only PEM is supported: set ssl.keystore.type to PEM and give key and certificates as PEM", chainSetting, what)
			return nil
		}
	}
	if len(text) == 0 {
		text = keyText // both in one
	}
	if len(keyText) == 0 {
		keyText = text
	}
	chain := parseChain(text, chainSetting, report)
	key := parseKey(keyText, s.KeyPassword, report)
	if chain == nil || key == nil {
		return nil
	}
	leaf := chain[0]
	public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(key.Public()) {
		report("%s: the key does not belong to the first certificate, which is for %s; the own certificate comes first, its authorities after it", keySetting, subject(leaf))
		return nil
	}
	if now.After(leaf.NotAfter) {
		report("%s: the certificate for %s expired on %s", chainSetting, subject(leaf), date(leaf.NotAfter))
		return nil
	}
	if now.Before(leaf.NotBefore) {
		report("%s: the certificate for %s is not valid before %s; the clock here says %s", chainSetting, subject(leaf), date(leaf.NotBefore), date(now))
		return nil
	}
	certificate := &tls.Certificate{PrivateKey: key, Leaf: leaf}
	for _, c := range chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	return certificate
}

func subject(c *x509.Certificate) string {
	if s := c.Subject.String(); s != "" {
		return s
	}
	if len(c.DNSNames) > 0 {
		return strings.Join(c.DNSNames, ", ")
	}
	return "serial number " + c.SerialNumber.String()
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// keystoreFormat names a format of Java's that is not PEM, or is "".
func keystoreFormat(text []byte) string {
	switch {
	case bytes.HasPrefix(text, []byte{0xFE, 0xED, 0xFE, 0xED}):
		return "a JKS keystore"
	case bytes.HasPrefix(text, []byte{0xCE, 0xCE, 0xCE, 0xCE}):
		return "a JCEKS keystore"
	case bytes.HasPrefix(text, []byte{0x30, 0x82}):
		return "DER, such as a PKCS#12 keystore"
	}
	return ""
}
