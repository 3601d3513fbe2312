package security

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ankka-flow/cmd/ankka-flow/security/testca"
)

func TestClient_NamesEveryProblemByItsJavaSetting(t *testing.T) {
	ca := testca.New(t, "ours")
	certificate, key := ca.Issue(t, testca.Certificate{Name: "flow"})
	_, otherKey := ca.Issue(t, testca.Certificate{})
	old, oldKey := ca.Issue(t, testca.Certificate{Name: "old", NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2021, 2, 3, 4, 5, 0, 0, time.UTC)})
	young, youngKey := ca.Issue(t, testca.Certificate{Name: "young", NotBefore: time.Date(2999, 1, 2, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)})
	for _, tt := range []struct {
		name string
		in   Settings
		want []string // each in a problem of its own, in this order
	}{
		{"nothing", Settings{}, nil},
		{"plain", Settings{Protocol: "plaintext"}, nil},
		{"TLS", Settings{Protocol: "SSL", Truststore: ca.PEM()}, nil},
		{"mTLS", Settings{Protocol: "SSL", Certificate: certificate, Key: key}, nil},
		{"key and chain in one", Settings{Protocol: "SSL", Certificate: slices.Concat(key, certificate)}, nil},
		{"the same file as both", Settings{Protocol: "SSL", Certificate: slices.Concat(key, certificate), Key: slices.Concat(key, certificate)}, nil},
		{"a password that no key needs", Settings{Protocol: "SSL", Certificate: certificate, Key: key, KeyPassword: "x"}, nil},
		{"PLAIN", Settings{Protocol: "SASL_PLAINTEXT", Mechanism: "PLAIN", Username: "bob", Password: "pw"}, nil},
		{"SCRAM", Settings{Protocol: "SASL_SSL", Mechanism: "scram-sha-512", Username: "bob", Password: "pw"}, nil},

		{"protocol", Settings{Protocol: "TLS"}, []string{"security.protocol: \"TLS\" is none of"}},
		{"no mechanism", Settings{Protocol: "SASL_SSL", Username: "u", Password: "p"}, []string{"sasl.mechanism: it is missing"}},
		{"GSSAPI", Settings{Protocol: "SASL_SSL", Mechanism: "GSSAPI", Username: "u", Password: "p"}, []string{"sasl.mechanism: GSSAPI is not supported"}},
		{"unknown mechanism", Settings{Protocol: "SASL_SSL", Mechanism: "SCRAM", Username: "u", Password: "p"}, []string{"sasl.mechanism: \"SCRAM\" is none of"}},
		{"no credentials", Settings{Protocol: "SASL_SSL", Mechanism: "PLAIN"}, []string{"sasl.username", "sasl.password"}},
		{"line break", Settings{Protocol: "SASL_SSL", Mechanism: "PLAIN", Username: "u", Password: "p\n"}, []string{"sasl.password (or sasl.jaas.config): it ends in a line break"}},
		{"zero byte", Settings{Protocol: "SASL_SSL", Mechanism: "PLAIN", Username: "u\x00", Password: "p"}, []string{"sasl.username"}},
		{"SCRAM's characters", Settings{Protocol: "SASL_SSL", Mechanism: "SCRAM-SHA-256", Username: "u", Password: "p\u0007"}, []string{"SCRAM-SHA-256 does not allow"}},
		{"TLS settings without TLS", Settings{Truststore: ca.PEM()}, []string{"security.protocol: it is PLAINTEXT, which does not use TLS, but ssl.truststore.location"}},
		{"SASL settings without SASL", Settings{Protocol: "SSL", Password: "p"}, []string{"security.protocol: it is SSL, which does not use SASL, but sasl.password"}},
		{"no PEM", Settings{Protocol: "SSL", Truststore: []byte("hello")}, []string{"ssl.truststore.location (or ssl.truststore.certificates): it has no PEM certificate"}},
		{"JKS", Settings{Protocol: "SSL", Truststore: []byte{0xFE, 0xED, 0xFE, 0xED, 0}}, []string{"a JKS keystore"}},
		{"PKCS#12", Settings{Protocol: "SSL", Certificate: []byte{0x30, 0x82, 1}}, []string{"PKCS#12"}},
		{"line breaks lost", Settings{Protocol: "SSL", Truststore: bytes.ReplaceAll(ca.PEM(), []byte("\n"), []byte(" "))}, []string{"damaged or cut off; inside JSON or YAML"}},
		{"the second cut off", Settings{Protocol: "SSL", Truststore: append(ca.PEM(), ca.PEM()[:100]...)}, []string{"after 1 certificates comes one that is damaged"}},
		{"no key", Settings{Protocol: "SSL", Certificate: certificate}, []string{"ssl.keystore.location (or ssl.keystore.key): it has no PEM private key"}},
		{"no certificate", Settings{Protocol: "SSL", Key: key}, []string{"ssl.keystore.location (or ssl.keystore.certificate.chain): it has no PEM certificate"}},
		{"another's key", Settings{Protocol: "SSL", Certificate: certificate, Key: otherKey}, []string{"the key does not belong to the first certificate, which is for CN=flow"}},
		{"expired", Settings{Protocol: "SSL", Certificate: old, Key: oldKey}, []string{"the certificate for CN=old expired on 2021-02-03 04:05 UTC"}},
		{"not yet valid", Settings{Protocol: "SSL", Certificate: young, Key: youngKey}, []string{"the certificate for CN=young is not valid before 2999-01-02 00:00 UTC"}},
		{"a password without a key", Settings{Protocol: "SSL", KeyPassword: "x"}, []string{"ssl.key.password: it is set, but there is no key"}},
		{"everything at once", Settings{Protocol: "SASL_SSL", Mechanism: "OAUTHBEARER", Truststore: []byte("x"), Certificate: old, Key: oldKey, Password: "p"},
			[]string{"ssl.truststore.location", "expired on", "sasl.mechanism: OAUTHBEARER", "sasl.username"}},
		{"everything at once, behind a wrong protocol", Settings{Protocol: "SASL", Truststore: []byte("x"), Mechanism: "PLAIN"},
			[]string{"security.protocol", "ssl.truststore.location", "sasl.username", "sasl.password"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, mechanism, problems := tt.in.Client()
			if len(problems) != len(tt.want) {
				t.Fatalf("problems %q, want %d", problems, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("%q does not say %q", problems[i], want)
				}
			}
			protocol := strings.ToUpper(tt.in.Protocol)
			if len(tt.want) == 0 && ((config != nil) != strings.HasSuffix(protocol, "SSL") || (mechanism != nil) != strings.HasPrefix(protocol, "SASL")) {
				t.Errorf("TLS %v and SASL %v for %q", config != nil, mechanism != nil, tt.in.Protocol)
			}
		})
	}
}

func stored(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The keys are one and the same, as OpenSSL 3 writes it.
func TestClient_KeysAsOpenSSLWritesThem(t *testing.T) {
	certificate := stored(t, "certificate.pem")
	for _, tt := range []struct{ file, password, want string }{
		{"key-plain.pem", "", ""},
		{"key-sec1.pem", "", ""},
		{"key-aes-128-cbc.pem", "open-sesame", ""},
		{"key-aes-192-cbc.pem", "open-sesame", ""},
		{"key-aes-256-cbc.pem", "open-sesame", ""},
		{"key-des3.pem", "open-sesame", ""},
		{"key-sha1.pem", "open-sesame", ""},
		{"key-sha512.pem", "open-sesame", ""},
		{"key-aes-256-cbc.pem", "sesame", "ssl.key.password: it does not open"},
		{"key-aes-256-cbc.pem", "", "ssl.key.password: it is missing"},
		{"key-scrypt.pem", "open-sesame", "is not PBKDF2"},
		{"key-pbes1.pem", "open-sesame", "is not PBES2"},
		{"key-legacy.pem", "open-sesame", "OpenSSL's old format"},
	} {
		s := Settings{Protocol: "SSL", Certificate: certificate, Key: stored(t, tt.file), KeyPassword: tt.password}
		_, _, problems := s.Client()
		switch {
		case tt.want == "" && len(problems) > 0:
			t.Errorf("%s: %q", tt.file, problems)
		case tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], tt.want)):
			t.Errorf("%s with %q: %q does not say %q", tt.file, tt.password, problems, tt.want)
		}
	}
}

// A wrong password whose padding is right by chance is still a wrong password.
func TestClient_NoPasswordButTheRightOneOpensAKey(t *testing.T) {
	key := stored(t, "key-aes-256-cbc.pem")
	for i := range 600 {
		var problems []string
		if parseKey(key, fmt.Sprint("guess", i), func(f string, a ...any) { problems = append(problems, fmt.Sprintf(f, a...)) }) != nil {
			t.Fatalf("guess %d opened it", i)
		}
		if len(problems) != 1 || !strings.HasPrefix(problems[0], "ssl.key.password") {
			t.Fatalf("guess %d: %q", i, problems)
		}
	}
}

func FuzzDecryptPKCS8(f *testing.F) {
	f.Add([]byte{0x30, 0x00})
	f.Fuzz(func(t *testing.T, der []byte) {
		if len(der) > 300 { // the iterations are the only cost
			return
		}
		decryptPKCS8(der, []byte("x"))
	})
}

func TestSecretsAreNotPrinted(t *testing.T) {
	ca := testca.New(t, "ours")
	certificate, key := ca.Issue(t, testca.Certificate{})
	const password, keyPassword = "hunter2-sasl", "hunter2-key"
	secrets := []string{password, keyPassword, strings.Split(string(key), "\n")[1]}
	s := &Settings{
		Protocol: "SASL_SSL", Mechanism: "PLAIN", Username: "bob", Password: password, Truststore: ca.PEM(),
		Certificate: slices.Concat(certificate, key), Key: key, KeyPassword: keyPassword, SkipHostname: true,
	}
	var out bytes.Buffer
	print := func(of any) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			fmt.Fprintf(&out, verb+"\n", of)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "it", of)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "it", of)
	}
	print(s)
	print(*s)
	print(struct{ Nested Settings }{*s})
	print([]*Settings{s})
	if text, err := json.Marshal(struct{ S Settings }{*s}); err != nil {
		t.Error(err)
	} else {
		out.Write(text)
	}
	for _, name := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		s.Mechanism = name
		config, mechanism, problems := s.Client()
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&out, verb+"\n", mechanism)
			fmt.Fprintf(&out, verb+"\n", struct{ hidden any }{mechanism})
			fmt.Fprintf(&out, verb+"\n", config)
		}
		session, _, err := mechanism.Start(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%+v %#v\n", session, session)
	}
	// What is wrong is not quoted.
	for _, wrong := range []Settings{
		{Protocol: "SASL_SSL", Mechanism: "SCRAM-SHA-256", Username: "u", Password: password + "\u0007"},
		{Protocol: "SSL", Certificate: certificate, Key: bytes.ReplaceAll(key, []byte("\n"), nil)},
		{Protocol: "SSL", Certificate: key, Key: certificate},
		{Protocol: "SSL", Certificate: certificate, Key: bytes.ReplaceAll(key, []byte("PRIVATE"), []byte("ENCRYPTED PRIVATE")), KeyPassword: keyPassword},
		{Protocol: "SSL", Certificate: certificate, Key: bytes.ReplaceAll(key, []byte("PRIVATE"), []byte("RSA PRIVATE"))},
		{Protocol: "PLAINTEXT", Password: password, KeyPassword: keyPassword},
	} {
		_, _, problems := wrong.Client()
		if len(problems) == 0 {
			t.Errorf("%v is not refused", wrong)
		}
		fmt.Fprintln(&out, problems)
	}
	for _, secret := range secrets {
		if at := strings.Index(out.String(), secret); at >= 0 {
			t.Errorf("a secret is printed: ...%s...", out.String()[max(0, at-200):at+len(secret)])
		}
		if hex := fmt.Sprintf("%x", secret); strings.Contains(out.String(), hex) {
			t.Error("a secret is printed in hexadecimal")
		}
	}
	if !strings.Contains(out.String(), "bob") {
		t.Error("nothing was printed: this test shows nothing")
	}
}
