package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"ankka-flow/cmd/ankka-flow/security/testca"
)

// shows says that a text has a grain, in any of the ways that bytes are printed in: as
// they are, which is also how a URL has letters and digits, in hex, in base64 wherever
// the grain begins in it, or as numbers.
func shows(text, grain string) bool {
	text = strings.ToLower(text)
	numbers := strings.Trim(fmt.Sprint([]byte(grain)), "[]")
	forms := []string{grain, hex.EncodeToString([]byte(grain)), fmt.Sprintf("% x", grain), numbers, strings.ReplaceAll(numbers, " ", ",")}
	for before := range 3 { // bytes before it in its group of three
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), grain...))
		from, to := (8*before+5)/6, 8*(before+len(grain))/6
		forms = append(forms, encoded[from:to], strings.NewReplacer("+", "-", "/", "_").Replace(encoded[from:to]))
	}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, strings.ToLower(form)) })
}

func TestTheSearchForSecretsFindsThem(t *testing.T) {
	const planted = "hunter2"
	for _, text := range []string{
		planted, "HUNTER2", "a%2F" + planted + "%3D", "x 68756E74657232 x", "68 75 6e 74 65 72 32", fmt.Sprint([]byte("a" + planted)), fmt.Sprintf("%q", []string{planted}),
		base64.StdEncoding.EncodeToString([]byte("\x00shop\x00" + planted + "!")), base64.URLEncoding.EncodeToString([]byte("?" + planted)), base64.StdEncoding.EncodeToString([]byte("ab" + planted + "xyz")),
	} {
		if !shows(text, planted) {
			t.Errorf("%q is not found", text)
		}
	}
	if shows("hunter 2, hunte\nr2", planted) {
		t.Error("found where it is not")
	}
}

// planted is in every password of these tests, and opens is the password of the key.
const (
	planted = "hunter2"
	opens   = "open-sesame"
)

// vault has the secrets of these tests and a broker that wants them: TLS with a client
// certificate, whose key is encrypted, and SASL PLAIN.
type vault struct {
	cluster    *kfake.Cluster
	dir        string   // files of secrets, and the authority's certificate
	key, certs string   // PEM
	grains     []string // what must be nowhere
}

func newVault(t *testing.T) *vault {
	t.Helper()
	ca := testca.New(t, "shop")
	config := ca.Server(t, testca.Certificate{}, false)
	config.ClientAuth = tls.RequireAnyClientCert
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "valid"), kfake.TLS(config), kfake.EnableSASL(), kfake.Superuser("PLAIN", "shop", planted+"-kafka"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	v := &vault{cluster: cluster, dir: t.TempDir(), grains: []string{planted, opens}}
	var clear string
	for name, to := range map[string]*string{"key-aes-256-cbc.pem": &v.key, "certificate.pem": &v.certs, "key-plain.pem": &clear} {
		text, err := os.ReadFile(filepath.Join("security", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		*to = string(text)
	}
	for _, text := range []string{v.key, clear} {
		block, _ := pem.Decode([]byte(text))
		middle := block.Bytes[len(block.Bytes)/2:]
		v.grains = append(v.grains, strings.Split(text, "\n")[2], string(middle[:12]))
	}
	for name, text := range map[string]string{
		"ca.pem": string(ca.PEM()), "own.pem": v.certs + v.key, "key.pem": v.key, "token": planted + "-token\n", "password": planted + "-kafka\n",
		"key-password": opens + "\n", "jaas": v.jaas(planted + "-kafka"),
	} {
		if err := os.WriteFile(filepath.Join(v.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(plain.Auth{User: "shop", Pass: planted + "-kafka"}.AsMechanism()),
		kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{config.Certificates[0]}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *vault) jaas(password string) string {
	return `org.apache.kafka.common.security.plain.PlainLoginModule required username="shop" password="` + password + `";`
}

// configure writes a configuration with these lines of connection-config and config,
// in a folder beside the one that the run leaves its things in.
func (v *vault) configure(t *testing.T, connection, parameters string, env ...string) programOptions {
	t.Helper()
	dir := t.TempDir()
	text := `
bootstrap.servers: ` + v.cluster.ListenAddrs()[0] + `
pipeline: shop
streamlet: router
inlets:
  in: {topic: orders}
topics: {out: valid}
connection-config:
  security.protocol: SASL_SSL
  ssl.truststore.location: ` + v.dir + `/ca.pem
  sasl.mechanism: PLAIN
` + connection + `
config:
  threshold: ${SHOP_THRESHOLD:-7}
` + parameters
	if err := os.WriteFile(filepath.Join(dir, "flow.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return programOptions{dir: t.TempDir(), env: append(caseEnv("FLOW_CONFIG_DIR="+dir, "SHOP_OTHER=kept", "FLOW_POD_NAME=pod-1"), env...)}
}

// indented is a text as a block of YAML below a key.
func indented(text string) string {
	return "|\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// nowhere checks that none of the secrets is in what was left.
func (v *vault) nowhere(t *testing.T, left map[string]string) {
	t.Helper()
	for where, text := range left {
		for _, grain := range v.grains {
			if shows(text, grain) {
				t.Errorf("%s has the secret %q:\n%s", where, grain, tail([]byte(text), 3000))
			}
		}
	}
}

// Whichever way secrets come in, the run connects with them and the process gets its
// parameter; and none of them is in anything that the run leaves behind or shows, nor in
// the process's environment and command line, nor in what is dumped when it is killed by
// SIGQUIT; nor in what any other command says.
func TestSecretsOfARunAreNowhere(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	location := "  ssl.keystore.location: " + v.dir + "/own.pem\n"
	keyVariables := []string{"SHOP_KEY=" + v.key, "SHOP_OPENS=" + opens}
	for name, c := range map[string]struct {
		connection, parameters string
		env, flags             []string
		crash                  bool // it ends with SIGQUIT, and a dump
	}{
		"values of the file, a parameter by a flag": {
			connection: "  sasl.username: shop\n  sasl.password: " + planted + "-kafka\n  ssl.keystore.certificate.chain: " + indented(v.certs) +
				"  ssl.keystore.key: " + indented(v.key) + "  ssl.key.password: " + opens,
			flags: []string{"--param", "api-token=" + planted + "-token"},
		},
		"a JAAS line of the file, a parameter by its variable": {
			connection: location + "  ssl.key.password: " + opens + "\n  sasl.jaas.config: " + v.jaas(planted+"-kafka"),
			env:        []string{"FLOW_PARAM=api-token=" + planted + "-token"}, crash: true,
		},
		"variables": {
			connection: "  sasl.username: shop\n  sasl.password: ${SHOP_PASSWORD}\n  ssl.keystore.certificate.chain: ${SHOP_CHAIN}\n  ssl.keystore.key: ${SHOP_KEY}\n  ssl.key.password: ${SHOP_OPENS}",
			parameters: "  api-token: ${SHOP_TOKEN}",
			env:        append(keyVariables, "SHOP_PASSWORD="+planted+"-kafka", "SHOP_CHAIN="+v.certs, "SHOP_TOKEN="+planted+"-token"), crash: true,
		},
		"a JAAS line with a variable": {
			connection: location + "  ssl.key.password: ${SHOP_OPENS}\n  sasl.jaas.config: " + v.jaas("${SHOP_PASSWORD}"),
			parameters: "  api-token: x-${SHOP_PASSWORD}",
			env:        []string{"SHOP_OPENS=" + opens, "SHOP_PASSWORD=" + planted + "-kafka"},
		},
		"a JAAS line that is a variable": {
			connection: location + "  ssl.key.password-file: ${SHOP_SECRETS}/key-password\n  sasl.jaas.config: ${SHOP_JAAS}",
			parameters: "  api-token: '${SHOP_UNSET:-" + planted + "-default}'",
			env:        []string{"SHOP_SECRETS=" + v.dir, "SHOP_JAAS=" + v.jaas(planted+"-kafka")},
		},
		"files": {
			connection: "  sasl.username: shop\n  sasl.password-file: " + v.dir + "/password\n  ssl.keystore.certificate.chain-file: " + v.dir + "/own.pem\n  ssl.keystore.key-file: " + v.dir +
				"/key.pem\n  ssl.key.password-file: " + v.dir + "/key-password",
			parameters: "  api-token: {file: " + v.dir + "/token}",
		},
		"a file with a JAAS line": {
			connection: location + "  ssl.key.password-file: " + v.dir + "/key-password\n  sasl.jaas.config-file: " + v.dir + "/jaas",
			parameters: "  api-token: https://shop:" + planted + "-token@vault/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := v.configure(t, c.connection, c.parameters, c.env...)
			seen := filepath.Join(t.TempDir(), "seen")
			script, err := filepath.Abs("testdata/configured.py")
			if err != nil {
				t.Fatal(err)
			}
			streamlet := []string{"--", "python3", script, seen}
			format := "json"
			if c.crash {
				format = "text"
			}
			run := slices.Concat([]string{"run", "--log-level", "debug", "--log-format", format, "--trace", "trace.jsonl", "--pipeline", strings.NewReplacer(" ", "-", ",", "").Replace(name)}, c.flags, streamlet)
			p := startProgram(t, o, run...)
			left := map[string]string{}
			v.whileItRuns(t, p, left)
			if c.crash {
				if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
					t.Fatal(err)
				}
				p.wait()
				if !strings.Contains(p.stderr(), "goroutine 1 ") {
					t.Error("there is no dump")
				}
			} else {
				p.stopsWell()
			}
			left["the log"] = p.stderr()
			arrived(t, seen)
			for _, command := range otherCommands(c.flags, streamlet) {
				code, stdout, stderr := runProgram(t, o, command...)
				if code != 0 {
					t.Errorf("%v: exit code %d: %s", command, code, stderr)
				}
				left[strings.Join(command, " ")] = stdout + stderr
			}
			if printed := left[strings.Join(slices.Concat([]string{"run", "--print-config"}, c.flags, streamlet), " ")]; strings.Count(printed, "***") < 2 {
				t.Errorf("little is hidden in\n%s", printed)
			}
			readTree(t, o.dir, left)
			if len(left["trace.jsonl"]) == 0 {
				t.Error("there is no trace")
			}
			v.nowhere(t, left)
		})
	}
}

// whileItRuns adds what can be asked for while a run goes on: every page, and what the
// system shows of the process.
func (v *vault) whileItRuns(t *testing.T, p *program, left map[string]string) {
	t.Helper()
	pid := p.await(`pid (\d+): python3`)[1]
	url := p.await(`status (http://127\.0\.0\.1:\d+)`)[1]
	eventually(t, "the record is committed", func() bool { return metrics(t, url)[`ankka_flow_committed_records_total{inlet="in"}`] >= 1 })
	for _, path := range []string{"/", "/metrics", "/status.json", "/readyz", "/livez"} {
		_, left[path] = get(t, url+path)
	}
	for _, name := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(filepath.Join("/proc", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		left["the process's "+name] = string(text)
	}
	environment := strings.Split(left["the process's environ"], "\x00")
	for _, name := range []string{"SHOP_OTHER=kept", "FLOW_POD_NAME=pod-1"} {
		if !slices.Contains(environment, name) {
			t.Errorf("the process lacks %s, which is its own", name)
		}
	}
	for _, e := range environment {
		if strings.HasPrefix(e, "FLOW_") && !strings.HasPrefix(e, "FLOW_POD_NAME=") {
			t.Errorf("the process has %s", e)
		}
	}
}

// arrived checks that the process got its parameters, and that the search finds the
// secret among what it wrote.
func arrived(t *testing.T, seen string) {
	t.Helper()
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Threshold int
		Token     string
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Threshold != 7 || !strings.Contains(got.Token, planted) || !shows(string(text), planted) {
		t.Errorf("the streamlet got threshold %d and token %q", got.Threshold, got.Token)
	}
}

// otherCommands are all that read the configuration.
func otherCommands(flags, streamlet []string) [][]string {
	debug := []string{"--log-level", "debug"}
	with := func(words ...string) []string { return append(words, debug...) }
	return [][]string{
		slices.Concat([]string{"run", "--print-config"}, flags, streamlet), {"check", "--offline"}, slices.Concat([]string{"check"}, debug, streamlet), {"version", "--json"},
		slices.Concat([]string{"descriptor"}, debug, streamlet),
		with("topics", "list"), with("topics", "describe", "orders", "--json"), with("groups", "list"), with("consume", "orders", "-n", "1"), with("produce", "orders", os.DevNull),
	}
}

// What is wrong is named without the secret in it, or beside it: at the broker, in the
// file, in a file that it names, in a variable and on the command line.
func TestSecretsAreInNoError(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	own := "  ssl.keystore.location: " + v.dir + "/own.pem\n"
	user := "  sasl.username: shop\n"
	wrong := v.configure(t, own+user+"  ssl.key.password: "+opens+"\n  sasl.password: "+planted+"-wrong", "  api-token: "+planted)
	garbled := filepath.Join(t.TempDir(), "flow.json")
	if err := os.WriteFile(garbled, []byte(`{"connection-config": {"sasl.password": "`+planted+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	streamlet := []string{"--", "python3", script, filepath.Join(t.TempDir(), "seen")}
	empty := programOptions{dir: t.TempDir()}
	for name, c := range map[string]struct {
		o    programOptions
		args []string
		code int
		want string
	}{
		"a wrong password, run":        {wrong, slices.Concat([]string{"run", "--log-level", "debug", "--trace", "trace.jsonl"}, streamlet), 0, "sasl.password"},
		"a wrong password, produce":    {wrong, []string{"produce", "orders", "--log-level", "debug"}, 1, "sasl.password"},
		"a wrong password, topics":     {wrong, []string{"topics", "list", "--log-level", "debug"}, 1, "sasl.password"},
		"a wrong password, groups":     {wrong, []string{"groups", "describe", "g", "--log-level", "debug"}, 1, "sasl.password"},
		"a wrong password, check":      {wrong, slices.Concat([]string{"check", "--log-level", "debug"}, streamlet), 1, "sasl.password"},
		"a wrong password of the key":  {v.configure(t, own+user+"  ssl.key.password: "+planted+"\n  sasl.password: x", ""), []string{"topics", "list"}, 2, "ssl.key.password"},
		"a key that is none":           {v.configure(t, user+"  ssl.keystore.certificate.chain: "+indented(v.certs)+"  ssl.keystore.key: "+indented("x"+v.key)+"  ssl.key.password: "+opens+"\n  sasl.password: x", ""), []string{"check", "--offline"}, 2, "ssl.keystore.key"},
		"a line that is no YAML":       {v.configure(t, user+"  sasl.password: "+planted+": x\n  y", ""), []string{"check", "--offline"}, 2, "not YAML"},
		"a file that is no JSON":       {empty, []string{"check", "--offline", "-c", garbled}, 2, "flow.json:"},
		"a key of the file is unknown": {v.configure(t, own+user+"  sasl.pasword: "+planted, ""), []string{"check", "--offline"}, 2, "did you mean sasl.password"},
		"a missing file":               {v.configure(t, own+user+"  sasl.password-file: /none\n  ssl.key.password: "+opens, ""), []string{"check", "--offline"}, 2, "/none"},
		"a parameter of a wrong type":  {v.configure(t, own+user+"  ssl.key.password: "+opens+"\n  sasl.password: "+planted+"-kafka", ""), slices.Concat([]string{"run", "--param", "api-tokn=" + planted}, streamlet), 1, "api-tokn"},
		"a parameter without a sign":   {empty, slices.Concat([]string{"run", "--param", "api-token:" + planted}, streamlet), 2, "KEY=VALUE"},
		"a flag that there is none of": {empty, slices.Concat([]string{"run", "--sasl-password=" + planted}, streamlet), 2, "--sasl-password"},
		"a letter that is no flag":     {empty, slices.Concat([]string{"run", "-p" + planted}, streamlet), 2, "-p"},
		"a login before a broker":      {empty, []string{"topics", "list", "-b", "kafka://shop:" + planted + "@127.0.0.1:9092"}, 2, "sasl.password"},
		"a variable that there is not": {programOptions{dir: empty.dir, env: []string{"FLOW_SASL_PASSWORD=" + planted}}, slices.Concat([]string{"run"}, streamlet), 2, "FLOW_SASL_PASSWORD"},
		"a parameter of the variable":  {programOptions{dir: t.TempDir(), env: []string{"FLOW_PARAM=threshold=" + planted, "FLOW_EMBEDDED=true", "FLOW_METRICS_PORT=0"}}, slices.Concat([]string{"run"}, streamlet), 1, "threshold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, c.o, c.args...)
			if c.code == 0 { // it tries for ever
				p.await(c.want)
				p.stopsWell()
			} else {
				p.endsWith(c.code)
			}
			said := p.stdout.String() + p.stderr()
			if !strings.Contains(said, c.want) {
				t.Errorf("it does not say %q: %s", c.want, said)
			}
			left := map[string]string{"what it says": said}
			readTree(t, c.o.dir, left)
			v.nowhere(t, left)
		})
	}
}

// A parameter that is secret is not in the data of the embedded broker, its address
// file or the state directory either.
func TestSecretsAreNotWithTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	o := programOptions{dir: t.TempDir(), env: caseEnv("FLOW_PARAM=api-token=" + planted + "-token\nthreshold=7")}
	if err := os.WriteFile(filepath.Join(o.dir, "carts.jsonl"), []byte(`{"value":"v"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/configured.py")
	if err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(t.TempDir(), "seen")
	p := startProgram(t, o, "run", "--log-level", "debug", "--input", "in=carts.jsonl", "--until-end", "--", "python3", script, seen)
	p.endsWith(0)
	arrived(t, seen)
	left := map[string]string{"the log": p.stderr()}
	readTree(t, o.dir, left)
	if len(left) < 4 {
		t.Errorf("it left only %d files", len(left)-1)
	}
	(&vault{grains: []string{planted}}).nowhere(t, left)
}
