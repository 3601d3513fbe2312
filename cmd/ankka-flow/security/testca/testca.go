package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// CA is an authority that lives for a test.
type CA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// Certificate says what to issue. The zero value is a certificate for
// 127.0.0.1 and localhost that is valid now, for servers and clients.
type Certificate struct {
	// Name is the common name; empty: "test".
	Name string
	// Hosts are names and addresses; nil: 127.0.0.1 and localhost.
	Hosts []string
	// NotBefore and NotAfter; zero: an hour ago and in an hour.
	NotBefore, NotAfter time.Time
}

// New makes an authority of that name.
func New(t testing.TB, name string) *CA {
	t.Helper()
	ca := &CA{key: newKey(t), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return ca
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// PEM is the authority's certificate, to be trusted.
func (ca *CA) PEM() []byte { return encode("CERTIFICATE", ca.certificate.Raw) }

// Issue makes a certificate and its key (PKCS#8), both PEM.
func (ca *CA) Issue(t testing.TB, c Certificate) (certificate, key []byte) {
	t.Helper()
	ca.serial++
	if c.Name == "" {
		c.Name = "test"
	}
	if c.Hosts == nil {
		c.Hosts = []string{"127.0.0.1", "localhost"}
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(ca.serial), Subject: pkix.Name{CommonName: c.Name}, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range c.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	own := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, &own.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

// Server is the TLS configuration of a broker with such a certificate. With
// clients, it wants a certificate that this authority has issued.
func (ca *CA) Server(t testing.TB, c Certificate, clients bool) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(t, c))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(ca.certificate)
	}
	return config
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
