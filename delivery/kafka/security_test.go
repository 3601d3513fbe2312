package kafka

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/cmd/ankka-flow/security"
	"ankka-flow/cmd/ankka-flow/security/testca"
)

// secured applies settings as a configuration would.
func secured(t testing.TB, s security.Settings) func(*Config) {
	t.Helper()
	config, mechanism, problems := s.Client()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return func(c *Config) { c.TLS, c.SASL = config, mechanism }
}

// scripted is a broker that answers each request as it is told to, by API key;
// where it has no answer, it hangs up. It speaks TLS where config is not nil.
func scripted(t testing.TB, config *tls.Config, answers map[int16][]byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				for {
					var head [4]byte
					if _, err := io.ReadFull(c, head[:]); err != nil {
						return
					}
					frame := make([]byte, min(binary.BigEndian.Uint32(head[:]), 1<<16))
					if _, err := io.ReadFull(c, frame); err != nil || len(frame) < 8 {
						return
					}
					answer, ok := answers[int16(binary.BigEndian.Uint16(frame))]
					if !ok {
						return
					}
					out := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
					c.Write(append(append(out, frame[4:8]...), answer...))
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// handshakeAnswer is what SaslHandshake is answered with.
func handshakeAnswer(code int16, offered ...string) []byte {
	out := appendInt32(appendInt16(nil, code), int32(len(offered)))
	for _, o := range offered {
		out = appendString(out, o)
	}
	return out
}

// refusal is what SaslAuthenticate is answered with, quoting a secret.
func refusal(code int16, text string) []byte {
	return append(appendString(appendInt16(nil, code), text), make([]byte, 12)...)
}

const password, userName = "hunter2", "bob"

// probeCase is one way to reach a broker, and what the error says of it.
type probeCase struct {
	name, addr string
	settings   security.Settings
	want       []string // nil: it works
}

// probeLimit is far above what a probe takes, and far below for ever: this
// machine may be busy with all the others.
const probeLimit = 25 * time.Second

// check probes twice: the cause is named, in one line, and in the same words.
func (tt probeCase) check(t *testing.T, c *Client, logs func() string) {
	errorf := func(format string, args ...any) { t.Errorf(tt.name+": "+format, args...) }
	begin := time.Now()
	err := c.Probe(testContext(t))
	took := time.Since(begin)
	if took > probeLimit {
		errorf("took %v", took)
	}
	if tt.want == nil || err == nil {
		if (err == nil) != (tt.want == nil) {
			errorf("%v", err)
		}
		return
	}
	text := err.Error()
	for _, want := range append(tt.want, tt.addr) {
		if !strings.Contains(text, want) {
			errorf("%s\ndoes not say %q", text, want)
		}
	}
	passes := strings.Contains(text, "no answer in time") || strings.Contains(text, "nothing listens") || strings.Contains(text, "host name no-such")
	if NeedsPerson(fmt.Errorf("starting: %w", err)) == passes {
		errorf("a person is needed: %v; for %s", !passes, text)
	}
	if again := c.Probe(testContext(t)); again.Error() != text {
		errorf("the same is said in two ways:\n%s\n%s", text, again)
	}
	if strings.Contains(text, "\n") {
		errorf("it is not one line: %q", text)
	}
	if logs() != "" {
		errorf("beside the error, something is said: %s", logs())
	}
	c.Close() // nothing changes any more
	if all := fmt.Sprintf("%v %+v %#v %+v", err, c.cfg, c.cfg, c); strings.Contains(all, password) {
		errorf("a secret is printed: %s", all)
	}
}

func TestCase60_ConnectNamesCauseAndSetting(t *testing.T) {
	ca, other := testca.New(t, "ours"), testca.New(t, "theirs")
	certificate, key := ca.Issue(t, testca.Certificate{Name: "flow"})
	strange, strangeKey := other.Issue(t, testca.Certificate{Name: "stranger"})
	tlsOnly := security.Settings{Protocol: "SSL", Truststore: ca.PEM()}
	mutual := security.Settings{Protocol: "SSL", Truststore: ca.PEM(), Certificate: certificate, Key: key}
	sasl := func(protocol, mechanism, password string) security.Settings {
		s := security.Settings{Protocol: protocol, Mechanism: mechanism, Username: userName, Password: password}
		if protocol == "SASL_SSL" {
			s.Truststore = ca.PEM()
		}
		return s
	}
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", userName, password), kfake.Superuser("SCRAM-SHA-512", userName, password)}
	at := func(opts ...kfake.Opt) string { return newCluster(t, opts...).ListenAddrs()[0] }
	open, secret := at(), at(users...)
	sealed := at(kfake.TLS(ca.Server(t, testca.Certificate{}, false)))
	wantsCertificate := at(kfake.TLS(ca.Server(t, testca.Certificate{}, true)))
	old := ca.Server(t, testca.Certificate{}, true)
	old.MaxVersion = tls.VersionTLS12
	wantsCertificate12 := at(kfake.TLS(old))
	both := at(append(users, kfake.TLS(ca.Server(t, testca.Certificate{}, false)))...)
	expired := at(kfake.TLS(ca.Server(t, testca.Certificate{NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour)}, false)))
	young := at(kfake.TLS(ca.Server(t, testca.Certificate{NotBefore: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour)}, false)))
	elsewhere := at(kfake.TLS(ca.Server(t, testca.Certificate{Hosts: []string{"kafka.example"}}, false)))
	unoffered := scripted(t, nil, map[int16][]byte{17: handshakeAnswer(33, "PLAIN", "GSSAPI")})
	saslLess := scripted(t, nil, map[int16][]byte{17: handshakeAnswer(34)})
	refusing := scripted(t, nil, map[int16][]byte{17: handshakeAnswer(0), 36: refusal(58, "no, not "+password)})
	mute, _ := silent(t)
	web := httpServer(t, nil)
	secureWeb := httpServer(t, ca.Server(t, testca.Certificate{}, false))
	nobody := closedPort(t)

	var probes sync.WaitGroup
	defer probes.Wait()
	for _, tt := range []probeCase{
		{"open", open, security.Settings{}, nil},
		{"TLS", sealed, tlsOnly, nil},
		{"mTLS", wantsCertificate, mutual, nil},
		{"mTLS 1.2", wantsCertificate12, mutual, nil},
		{"PLAIN", secret, sasl("SASL_PLAINTEXT", "PLAIN", password), nil},
		{"SCRAM over TLS", both, sasl("SASL_SSL", "SCRAM-SHA-512", password), nil},
		{"any host name", elsewhere, security.Settings{Protocol: "SSL", Truststore: ca.PEM(), SkipHostname: true}, nil},

		{"wrong password", refusing, sasl("SASL_PLAINTEXT", "PLAIN", "wrong"), []string{"user name or the password of User:bob", "sasl.jaas.config"}},
		{"wrong password, and the broker hangs up", secret, sasl("SASL_PLAINTEXT", "PLAIN", "wrong"), []string{"SASL: the broker hung up", "User:bob", "sasl.password"}},
		{"wrong SCRAM password over TLS", both, sasl("SASL_SSL", "SCRAM-SHA-512", "wrong"), []string{"SASL: the broker hung up", "sasl.password"}},
		{"mechanism", unoffered, sasl("SASL_PLAINTEXT", "SCRAM-SHA-512", password), []string{"does not offer SCRAM-SHA-512; it offers PLAIN, GSSAPI", "sasl.mechanism"}},
		{"SASL to a port without", saslLess, sasl("SASL_PLAINTEXT", "PLAIN", password), []string{"does not want it", "security.protocol to PLAINTEXT"}},
		{"no SASL", secret, security.Settings{}, []string{"expects SASL (it offers PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)", "security.protocol to SASL_PLAINTEXT"}},
		{"no SASL over TLS", both, tlsOnly, []string{"expects SASL", "security.protocol to SASL_SSL"}},
		{"plain to TLS", sealed, security.Settings{}, []string{"expects TLS", "security.protocol"}},
		{"plain SASL to TLS", both, sasl("SASL_PLAINTEXT", "PLAIN", password), []string{"expects TLS", "security.protocol"}},
		{"plain to mTLS", wantsCertificate, security.Settings{}, []string{"expects TLS"}},
		{"TLS to plain", open, tlsOnly, []string{"does not speak TLS", "security.protocol"}},
		{"TLS and SASL to plain SASL", secret, sasl("SASL_SSL", "PLAIN", password), []string{"does not speak TLS", "security.protocol"}},
		{"wrong CA", sealed, security.Settings{Protocol: "SSL", Truststore: other.PEM()}, []string{"signed by CN=ours, which is not trusted", "ssl.truststore.location"}},
		{"the system's CAs", sealed, security.Settings{Protocol: "SSL"}, []string{"signed by CN=ours"}},
		{"wrong CA, any host name", elsewhere, security.Settings{Protocol: "SSL", Truststore: other.PEM(), SkipHostname: true}, []string{"signed by CN=ours"}},
		{"host name", elsewhere, tlsOnly, []string{"is for kafka.example, not for 127.0.0.1", "ssl.endpoint.identification.algorithm"}},
		{"expired", expired, tlsOnly, []string{"expired on " + time.Now().Add(-24*time.Hour).UTC().Format(time.DateOnly)}},
		{"not yet valid", young, tlsOnly, []string{"not valid before"}},
		{"no client certificate", wantsCertificate, tlsOnly, []string{"wants a client certificate", "ssl.keystore.location"}},
		{"no client certificate, TLS 1.2", wantsCertificate12, tlsOnly, []string{"wants a client certificate"}},
		{"a stranger's client certificate", wantsCertificate, security.Settings{Protocol: "SSL", Truststore: ca.PEM(), Certificate: strange, Key: strangeKey}, []string{"does not accept our client certificate", "ssl.keystore.location"}},
		{"nothing listens", nobody, security.Settings{}, []string{"nothing listens"}},
		{"unknown host", "no-such-host.invalid:9092", security.Settings{}, []string{"host name no-such-host.invalid"}},
		{"HTTP", web, security.Settings{}, []string{"speaks HTTP"}},
		{"HTTP, with TLS", web, tlsOnly, []string{"speaks HTTP"}},
		{"HTTP, with SASL", web, sasl("SASL_PLAINTEXT", "PLAIN", password), []string{"speaks HTTP"}},
		{"HTTPS", secureWeb, tlsOnly, []string{"speaks HTTP"}},
		{"HTTPS, plain", secureWeb, security.Settings{}, []string{"expects TLS"}},
		{"silence", mute, security.Settings{}, []string{"no answer in time to the first request"}},
		{"silence to TLS", mute, tlsOnly, []string{"no answer in time to the TLS handshake", "security.protocol"}},
	} {
		log, logs := logged()
		c := newTestClient(t, []string{tt.addr}, secured(t, tt.settings), func(c *Config) { c.Logger = log })
		probes.Go(func() { tt.check(t, c, logs) })
	}
}

func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func httpServer(t testing.TB, config *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	s := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() { defer close(served); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return addr
}

// Whatever step a broker stops answering at is named within seconds, and the
// client ends at once all the same.
func TestCase61_ABrokerThatStallsAtEachStep(t *testing.T) {
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", userName, password), kfake.Superuser("SCRAM-SHA-512", userName, password)}
	broker := newCluster(t, users...).ListenAddrs()[0]
	plainBroker := newCluster(t).ListenAddrs()[0]
	ca := testca.New(t, "ours")
	sasl := func(mechanism string) security.Settings {
		return security.Settings{Protocol: "SASL_PLAINTEXT", Mechanism: mechanism, Username: userName, Password: password}
	}
	mute, _ := silent(t)
	var probes sync.WaitGroup
	defer probes.Wait()
	for _, tt := range []struct {
		name, addr string
		settings   security.Settings
		want       string
	}{
		{"TLS", mute, security.Settings{Protocol: "SSL", Truststore: ca.PEM()}, stepTLS},
		{"SASL handshake", mute, sasl("PLAIN"), stepMechanism},
		{"PLAIN", stalling(t, broker, 1), sasl("PLAIN"), stepAuthenticate},
		{"SCRAM, first", stalling(t, broker, 1), sasl("SCRAM-SHA-512"), stepAuthenticate},
		{"SCRAM, second", stalling(t, broker, 2), sasl("SCRAM-SHA-512"), stepAuthenticate},
		{"ApiVersions behind SASL", stalling(t, broker, 3), sasl("SCRAM-SHA-512"), stepVersions},
		{"the first request", mute, security.Settings{}, stepFirst},
		{"ApiVersions", stalling(t, plainBroker, 1), security.Settings{}, stepVersions},
		{"Metadata", stalling(t, plainBroker, 2), security.Settings{}, stepVersions},
		{"Metadata behind SASL", stalling(t, broker, 4), sasl("SCRAM-SHA-512"), stepVersions},
	} {
		c := newTestClient(t, []string{tt.addr}, secured(t, tt.settings), func(c *Config) { c.RequestTimeout = time.Hour })
		c.watch("carts")
		probes.Go(func() {
			begin := time.Now()
			err := c.Probe(testContext(t))
			if err == nil || !strings.Contains(err.Error(), "no answer in time to "+tt.want) {
				t.Errorf("%s: %v does not name %q", tt.name, err, tt.want)
			}
			if d := time.Since(begin); d > 7*time.Second {
				t.Errorf("%s: it took %v", tt.name, d)
			}
			begin = time.Now()
			c.Close()
			if d := time.Since(begin); d > time.Second {
				t.Errorf("%s: Close took %v", tt.name, d)
			}
		})
	}
}

// A probe that is given up ends at once, whatever step it is in.
func TestCase61_AProbeIsGivenUpAtOnce(t *testing.T) {
	addr, _ := silent(t)
	c := newTestClient(t, []string{addr}, secured(t, security.Settings{Protocol: "SSL"}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		eventually(t, "a connection is begun", func() bool {
			c.conns.mu.Lock()
			defer c.conns.mu.Unlock()
			return len(c.conns.open) > 0
		})
		cancel()
	}()
	begin := time.Now()
	if err := c.Probe(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d := time.Since(begin); d > time.Second {
		t.Errorf("it took %v", d)
	}
}

// scramUser sets a user's SCRAM password, as an administrator does.
func scramUser(t testing.TB, cl *kfake.Cluster, user, password string) {
	t.Helper()
	c := newTestClient(t, cl.ListenAddrs(), secured(t, security.Settings{Protocol: "SASL_PLAINTEXT", Mechanism: "PLAIN", Username: "admin", Password: "admin"}))
	if err := c.Probe(testContext(t)); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt = user, 2, 4096, []byte("salt")
	u.SaltedPassword = salted(password, u.Salt)
	req.Upsertions = append(req.Upsertions, u)
	_, err := c.exchange(testContext(t), 0, func(rw io.ReadWriter) error {
		out := append(appendInt16(appendInt16(nil, 51), 0), 0, 0, 0, 1)
		out = append(appendInt16(out, -1), 0) // no client id, no tagged fields
		out = req.AppendTo(out)
		if _, err := rw.Write(append(appendInt32(nil, int32(len(out))), out...)); err != nil {
			return err
		}
		var size [4]byte
		if _, err := io.ReadFull(rw, size[:]); err != nil {
			return err
		}
		_, err := io.CopyN(io.Discard, rw, int64(binary.BigEndian.Uint32(size[:])))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func salted(password string, salt []byte) []byte {
	key, err := pbkdf2.Key(sha512.New, password, salt, 4096, sha512.Size)
	if err != nil {
		panic(err)
	}
	return key
}

func TestCase60_APasswordCorrectedOnTheBrokerIsEnough(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.Superuser("SCRAM-SHA-512", userName, "another"))
	log, logs := logged()
	c := newTestClient(t, cl.ListenAddrs(), secured(t, security.Settings{Protocol: "SASL_PLAINTEXT", Mechanism: "SCRAM-SHA-512", Username: userName, Password: password}), func(c *Config) { c.Logger = log })
	if err := c.Probe(testContext(t)); err == nil {
		t.Fatal("the wrong password is taken")
	}
	r := take(t, c, Inlet{Topic: "t"})
	defer r.stop()
	p, out := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "t", Records: values(1, 3, nil)}})
	scramUser(t, cl, userName, password)
	eventually(t, "the records are written and read", func() bool { return r.count() == 3 })
	eventually(t, "the write is confirmed", func() bool { return out.last(1) != nil })
	if strings.Contains(logs(), password) {
		t.Errorf("a secret is logged: %s", logs())
	}
}

// A broker that was reached and then refuses is said once, not at every try,
// and so is its return.
func TestCase60_ABrokerThatBeginsToRefuseIsSaidOnce(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.Superuser("SCRAM-SHA-512", userName, password))
	log, logs := logged()
	settings := security.Settings{Protocol: "SASL_PLAINTEXT", Mechanism: "SCRAM-SHA-512", Username: userName, Password: password}
	c := newTestClient(t, cl.ListenAddrs(), secured(t, settings), func(c *Config) { c.Logger = log })
	if err := c.Probe(testContext(t)); err != nil {
		t.Fatal(err)
	}
	scramUser(t, cl, userName, "changed")
	c.dropPools(func(string) bool { return false }) // as after a restart of the broker
	tries := 0
	eventually(t, "many tries", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.Topics(ctx, "t"); err == nil {
			t.Fatal("it still works")
		}
		tries++
		return tries == 20
	})
	if n := strings.Count(logs(), "is away"); n != 1 || !strings.Contains(logs(), "level=ERROR msg=\"broker "+cl.ListenAddrs()[0]+" is away") {
		t.Errorf("said %d times:\n%s", n, logs())
	}
	scramUser(t, cl, userName, password)
	eventually(t, "it works again", func() bool { _, err := c.Topics(testContext(t), "t"); return err == nil })
	if n := strings.Count(logs(), cl.ListenAddrs()[0]+" is back"); n != 1 {
		t.Errorf("said %d times:\n%s", n, logs())
	}
}

// KIP-368: no request begins on a connection whose session is about to end, so
// that the broker never cuts one off.
func TestASASLSessionIsRenewedBeforeItEnds(t *testing.T) {
	var mu sync.Mutex
	dials := 0
	cl := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", userName, password),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "300"}),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return countingListener{l, func() { mu.Lock(); dials++; mu.Unlock() }}, err
		}))
	c := newTestClient(t, cl.ListenAddrs(), secured(t, security.Settings{Protocol: "SASL_PLAINTEXT", Mechanism: "PLAIN", Username: userName, Password: password}))
	eventually(t, "several sessions", func() bool {
		if _, err := c.Topics(testContext(t), "t"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return dials >= 6
	})
}

type countingListener struct {
	net.Listener
	accepted func()
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted()
	}
	return c, err
}

func TestCase62_SecureStartsAndStopsLeaveNothing(t *testing.T) {
	ca := testca.New(t, "ours")
	cl := newCluster(t, kfake.SeedTopics(1, "t"), kfake.TLS(ca.Server(t, testca.Certificate{}, true)), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", userName, password))
	certificate, key := ca.Issue(t, testca.Certificate{})
	settings := security.Settings{Protocol: "SASL_SSL", Mechanism: "SCRAM-SHA-512", Username: userName, Password: password, Truststore: ca.PEM(), Certificate: certificate, Key: key}
	before := runtime.NumGoroutine()
	for i := range 20 {
		cfg := Config{Brokers: cl.ListenAddrs()}
		secured(t, settings)(&cfg)
		c, err := NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := take(t, c, Inlet{Topic: "t", Group: fmt.Sprint("g", i)})
		p, out := newTestProducer(t, c)
		p.Write(1, tp(0), []Out{{Topic: "t", Records: values(1, 1, nil)}})
		eventually(t, "the records", func() bool { return r.count() == i+1 })
		eventually(t, "the write is confirmed", func() bool { return out.last(1) != nil })
		if err := p.Close(testContext(t)); err != nil {
			t.Error(err)
		}
		r.stop()
		c.Close()
		c.conns.mu.Lock()
		if n := len(c.conns.open); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		c.conns.mu.Unlock()
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestUnreachable_SaysEachCauseOnce(t *testing.T) {
	refused := func(addr string) error {
		return fmt.Errorf("wrapped: %w", &ConnectError{Address: addr, Cause: "nothing listens there"})
	}
	err := &UnreachableError{Errs: []error{refused("a:1"), refused("b:2"), &ConnectError{Address: "c:3", Cause: "hangs"}}}
	if got, want := err.Error(), "no Kafka broker can be reached: brokers a:1, b:2: nothing listens there; broker c:3: hangs"; got != want {
		t.Error(got)
	}
	if text := plainly(errors.New("read tcp 127.0.0.1:51234->127.0.0.1:9092: i/o timeout")); text != "read i/o timeout" {
		t.Error(text)
	}
}

// A broker that the cluster names by an address that nobody reaches is said,
// though it never was reached.
func TestCase60_AnAdvertisedAddressThatIsWrongIsSaid(t *testing.T) {
	closed := closedPort(t)
	host, port := splitHostPort(closed)
	versions := appendInt32(appendInt16(nil, 0), 2)
	for _, v := range [][3]int16{{3, 8, 8}, {18, 0, 0}} {
		versions = appendInt16(appendInt16(appendInt16(versions, v[0]), v[1]), v[2])
	}
	brokers := appendInt32(appendInt32(appendInt32(nil, 0), 1), 7) // throttle time, one broker, its id
	brokers = appendInt16(appendInt32(appendString(brokers, host), int32(port)), -1)
	brokers = appendInt32(appendInt16(brokers, -1), 7)     // cluster, controller
	brokers = appendInt32(appendInt32(brokers, 0), -1<<31) // no topics, no rights
	addr := scripted(t, nil, map[int16][]byte{3: brokers, 18: versions})
	log, logs := logged()
	c := newTestClient(t, []string{addr}, func(c *Config) { c.Logger = log })
	if err := c.Probe(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.request(testContext(t), 7, metadataKey, metadataVersion, nil); err == nil {
			t.Fatal("it works")
		}
	}
	if n := strings.Count(logs(), "broker "+closed+", as the cluster names it (advertised.listeners), cannot be reached: nothing listens there"); n != 1 {
		t.Errorf("said %d times: %s", n, logs())
	}
}
