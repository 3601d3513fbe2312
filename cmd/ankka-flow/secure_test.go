package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"ankka-flow/cmd/ankka-flow/security/testca"
)

// secureCluster wants client certificates of ca and SCRAM-SHA-512; its
// administrator is returned, too.
func secureCluster(t *testing.T, ca *testca.CA, topics ...string) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...), kfake.TLS(ca.Server(t, testca.Certificate{}, true)),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "admin", "admin"), kfake.Superuser("SCRAM-SHA-512", "flow", "another"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	pair, err := tls.X509KeyPair(ca.Issue(t, testca.Certificate{Name: "admin"}))
	if err != nil {
		t.Fatal(err)
	}
	config := ca.Server(t, testca.Certificate{}, true)
	admin, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("valid"),
		kgo.DialTLSConfig(&tls.Config{RootCAs: config.ClientCAs, Certificates: []tls.Certificate{pair}}),
		kgo.SASL(scram.Auth{User: "admin", Pass: "admin"}.AsSha512Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return cluster, admin
}

// secureFiles writes a configuration that connects with TLS, a client certificate
// and SCRAM-SHA-512; change replaces parts of it.
func secureFiles(t *testing.T, ca *testca.CA, address string, change ...string) programOptions {
	t.Helper()
	dir := t.TempDir()
	certificate, key := ca.Issue(t, testca.Certificate{Name: "flow"})
	configuration := strings.NewReplacer(change...).Replace(`
bootstrap.servers: ` + address + `
pipeline: shop
inlets:
  in: {topic: orders}
topics: {out: valid}
metrics-port: 0
connection-config:
  security.protocol: SASL_SSL
  ssl.truststore.type: PEM
  ssl.truststore.location: ` + filepath.Join(dir, "ca.pem") + `
  ssl.keystore.type: PEM
  ssl.keystore.location: ` + filepath.Join(dir, "own.pem") + `
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: flow
  sasl.password: ${SECRET}
`)
	for name, text := range map[string][]byte{"flow.yaml": []byte(configuration), "ca.pem": ca.PEM(), "own.pem": slices.Concat(key, certificate)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return programOptions{dir: dir, env: append(caseEnv(), "FLOW_CONFIG_DIR="+dir, "FLOW_LOG_FORMAT=text", "SECRET=hunter2")}
}

// A run over TLS with a client certificate and SCRAM-SHA-512. Its password is
// wrong at first: that is said once, and once it is corrected at the broker
// the run goes on by itself.
func TestCase60_ASecureRunGoesOnOnceItsPasswordIsCorrected(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "shop")
	cluster, admin := secureCluster(t, ca, "orders", "valid")
	if err := admin.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var attempts atomic.Int32
	cluster.ControlKey(int16(kmsg.SASLHandshake), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		attempts.Add(1)
		return nil, nil, false
	})
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	o := secureFiles(t, ca, cluster.ListenAddrs()[0])
	begin := time.Now()
	p := startProgram(t, o, "run", "--until-end", "--", "python3", script, filepath.Join(o.dir, "seen"))
	p.await(`ERR broker .*SASL: .*user name or a password of User:flow.*sasl\.password`)
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("said after %v", d)
	}
	for limit := time.Now().Add(testLimit); attempts.Load() < 8; {
		if time.Now().After(limit) {
			t.Fatalf("only %d attempts", attempts.Load())
		}
		<-time.After(10 * time.Millisecond)
	}
	if n := strings.Count(p.stderr(), "SASL: "); n != 1 {
		t.Errorf("said %d times", n)
	}
	results, err := kadm.NewClient(admin).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "flow", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "hunter2"}})
	if err != nil || results.Error() != nil {
		t.Fatal(err, results.Error())
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := admin.PollFetches(t.Context()).Records(); len(got) != 1 || string(got[0].Value) != "v" {
		t.Errorf("valid has %v", got)
	}
	if strings.Contains(p.stderr(), "hunter2") {
		t.Error("the password is in the log")
	}
}

// produce and consume say why they cannot connect, in seconds, and end with 1;
// with the right settings they work.
func TestCase60_ProduceAndConsumeNameTheCause(t *testing.T) {
	t.Parallel()
	ca, other := testca.New(t, "shop"), testca.New(t, "theirs")
	cluster, _ := secureCluster(t, ca, "orders")
	address := cluster.ListenAddrs()[0]
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	admin := []string{"sasl.username: flow", "sasl.username: admin", "${SECRET}", "admin"}
	o := secureFiles(t, ca, address, admin...)
	o.stdin = `{"value":"v"}` + "\n"
	if code, _, stderr := runProgram(t, o, "produce", "orders"); code != 0 {
		t.Errorf("produce: %d, %s", code, stderr)
	}
	if code, stdout, stderr := runProgram(t, o, "consume", "orders", "-e", "--values"); code != 0 || stdout != "v\n" {
		t.Errorf("consume: %d, %q, %s", code, stdout, stderr)
	}
	for _, tt := range []struct {
		name string
		o    programOptions
		want string
	}{
		{"password", secureFiles(t, ca, address), "sasl.password"},
		{"no TLS", secureFiles(t, ca, address, "SASL_SSL", "SASL_PLAINTEXT", "ssl.", "# "), "expects TLS"},
		{"no SASL", secureFiles(t, ca, address, "SASL_SSL", "SSL", "sasl.", "# "), "expects SASL (it offers"},
		{"no client certificate", secureFiles(t, ca, address, "ssl.keystore", "# "), "ssl.keystore.location"},
		{"wrong CA", secureFiles(t, other, address), "ssl.truststore.location"},
		{"nothing there", secureFiles(t, ca, closed.Addr().String()), "nothing listens"},
		{"unknown host", secureFiles(t, ca, "no-such-host.invalid:9093"), "host name no-such-host.invalid"},
	} {
		for _, command := range []string{"produce", "consume"} {
			begin := time.Now()
			code, _, stderr := runProgram(t, tt.o, command, "orders")
			if code != 1 || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") > 0 || strings.Contains(stderr, "hunter2") {
				t.Errorf("%s, %s: exit code %d, want 1 and one line with %q: %s", command, tt.name, code, tt.want, stderr)
			}
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("%s, %s: took %v", command, tt.name, d)
			}
		}
	}
}

// A broker that accepts and never answers, at the TLS handshake or in SASL, is
// named, and SIGTERM ends the run in time.
func TestCase61_ASecureRunEndsInTimeThoughTheBrokerIsMute(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // its backlog accepts; nobody reads
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ca := testca.New(t, "shop")
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ change, step string }{
		{"SASL_SSL=SASL_SSL", "the TLS handshake"},
		{"SASL_SSL=SASL_PLAINTEXT ssl.=#", "the SASL handshake"},
	} {
		var change []string
		for pair := range strings.FieldsSeq(tt.change) {
			before, after, _ := strings.Cut(pair, "=")
			change = append(change, before, after)
		}
		o := secureFiles(t, ca, l.Addr().String(), change...)
		p := startProgram(t, o, "run", "--", "python3", script, filepath.Join(o.dir, "seen"))
		p.await(fmt.Sprintf("no answer in time to %s", tt.step))
		begin := time.Now()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != 0 {
			t.Errorf("%s: exit code %d", tt.step, code)
		}
		if d := time.Since(begin); d > 5*time.Second { // FLOW_STOP_TIMEOUT
			t.Errorf("%s: took %v", tt.step, d)
		}
	}
}
