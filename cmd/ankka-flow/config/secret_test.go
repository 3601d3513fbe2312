package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// planted is in every secret of these tests.
const planted = "hunter2"

// Whatever way Settings are printed, logged or encoded, no secret is in it: from
// the file itself, from a variable, from a -file, from a JAAS line.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	file := write(t, "secret", planted+"-file\n")
	for name, conn := range map[string]string{
		"plain":      "sasl.username: u\n  sasl.password: " + planted,
		"variable":   "sasl.username: u\n  sasl.password: ${PLANTED}",
		"file":       "sasl.username: u\n  sasl.password-file: " + file,
		"jaas":       `sasl.jaas.config: x.PlainLoginModule required username="u" password="` + planted + `";`,
		"whole jaas": `sasl.jaas.config: ${JAAS}`,
	} {
		s := mustLoad(t, "bootstrap.servers: k:1\nconfig: {password: "+planted+", other: '${PLANTED}', third: {file: "+file+"}}\n"+
			"connection-config:\n  security.protocol: SASL_PLAINTEXT\n  sasl.mechanism: PLAIN\n  "+conn+"\n",
			"PLANTED="+planted, `JAAS=x.PlainLoginModule required username="u" password="`+planted+`";`, "FLOW_PARAM=api-token="+planted)
		if !strings.Contains(s.Security.Password, planted) || !strings.Contains(s.PlainParams()["third"], planted) {
			t.Fatalf("%s: the secret did not arrive", name)
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, nil))
		logger.Info("x", "settings", s, "secret", s.Params["password"])
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "settings", s, "value", *s, "secret", s.Params["password"])
		encoded, err := json.Marshal(s.Params)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			s.Print(), fmt.Sprint(s), fmt.Sprintf("%+v %#v %v", s, s, *s), log.String(), string(encoded),
			fmt.Sprintf("%s %v %q %x %d %#v", s.Params, s.Params, s.Params["password"], s.Params["password"], s.Params["password"], s.Params["password"]),
		} {
			if strings.Contains(text, planted) || strings.Contains(text, fmt.Sprintf("%x", planted)) {
				t.Errorf("%s: a secret shows in %s", name, text)
			}
		}
		if !strings.Contains(s.Print(), `"***"`) {
			t.Errorf("%s: nothing is hidden in\n%s", name, s.Print())
		}
	}
}

// No problem quotes a secret, wherever it was put by mistake.
func TestSecretsAreNotInProblems(t *testing.T) {
	t.Parallel()
	secretFile := write(t, "secret", planted)
	for _, text := range []string{
		"connection-config: {sasl.pasword: hunter2}",
		"connection-config: {sasl.password: [hunter2]}",
		"connection-config: {sasl.password: {hunter2: x}}",
		"connection-config: {sasl.password: {hunter2, hunter2}}",
		"connection-config: {sasl.password: *hunter2}",
		"connection-config: {sasl.password: &hunter2}",
		"connection-config: {sasl.password: !hunter2}",
		"connection-config: {sasl.password: !hunter2 x}",
		"connection-config: {sasl.password: @hunter2}",
		"connection-config:\n  sasl.password: %hunter2: x",
		"connection-config:\n  sasl.password: [hunter2",
		"connection-config:\n  sasl.password: >hunter2\n",
		"connection-config:\n  sasl.password: \"hunter2\\q\"\n",
		"connection-config: {sasl.password: hunter2, sasl.password: hunter2}",
		"connection-config: {sasl.jaas.config: hunter2 hunter2 hunter2}",
		"connection-config: {sasl.jaas.config: 'PlainLoginModule required username=a password=\"hunter2'}",
		"connection-config:\n  sasl.password: hunter2: x\n",
		"connection-config:\n  sasl.password: 'hunter2\n",
		"connection-config: {sasl.mechanism: '${PLANTED}', security.protocol: SASL_SSL}",
		"connection-config: {request.timeout.ms: '${PLANTED}'}",
		"connection-config: {request.timeout.ms-file: " + secretFile + "}",
		"batch: {max-records: '${PLANTED}', max-bytes-file: " + secretFile + "}\nstop-timeout: ${PLANTED}",
		"inlets: {in: {topic: '${PLANTED} ${PLANTED}'}}",
		"bootstrap.servers: ${PLANTED}",
		"descriptor: {a: hunter2}\nconnection-config: {ssl.keystore.key: hunter2, ssl.key.password: hunter2, security.protocol: SSL}\nbootstrap.servers: k:1",
		"pipeline: ${PLANTED}!\nstreamlet: ${NOPE:-x y}\nconsumer-config: {partition.assignment.strategy: '${PLANTED}'}",
		"bootstrap.servers: k:1\nconnection-config: {ssl.truststore.certificates: hunter2, security.protocol: SSL}",
		"config: {password: hunter2, password: hunter2}\nx: ${hunter}",
	} {
		_, err := loadFile(t, text, "PLANTED="+planted)
		if err == nil {
			t.Errorf("%s: no problem", text)
		} else if strings.Contains(strings.ReplaceAll(err.Error(), secretFile, ""), planted) {
			t.Errorf("%s: the secret shows in\n%v", text, err)
		}
	}
	for _, env := range []string{
		"FLOW_SASL_PASSWORD=hunter2", "FLOW_PARAM=api-token:hunter2", "FLOW_PARAM=api-token hunter2",
		"FLOW_BROKERS=kafka://shop:hunter2@kafka:9092", "FLOW_BROKERS=k:1,shop:hun@hunter2@kafka:9092", "FLOW_BROKERS=hunter2@kafka:9092",
		"FLOW_CONFIG=https://shop:hunter2@kafka/flow.yaml", "FLOW_CONFIG_DIR=https://shop:hunter2@kafka/",
	} {
		name, text, _ := strings.Cut(env, "=")
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "FLOW_")), "_", "-")
		for _, in := range []Input{
			{Command: "run", Environ: []string{env, "FLOW_X=" + planted}},
			{Command: "run", Flags: map[string][]string{flag: {text}}, Environ: []string{"FLOW_X=" + planted}},
		} {
			if _, err := Load(in); err == nil || strings.Contains(err.Error(), planted) {
				t.Errorf("%s: %v", env, err)
			}
		}
	}
}

// What the configuration is printed as has no login of a URL, no key beside a
// certificate, and nothing of a parameter that the environment brought; each value is
// hidden by a rule of its own.
func TestPrintHidesWhatNoNameTellsApart(t *testing.T) {
	t.Parallel()
	chain := "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n" + planted + "\n-----END PRIVATE KEY-----\n"
	for name, c := range map[string]struct{ text, env, want string }{
		"a login":                {"config: {db: 'postgres://u:" + planted + "@h/d'}", "", `db: "postgres://***@h/d"`},
		"a login with signs":     {"config: {db: 'postgres://u:p@ss=" + planted + "@h/d'}", "", `db: "postgres://***@h/d"`},
		"a variable":             {"", "FLOW_PARAM=db=" + planted, `db: "***"  # FLOW_PARAM`},
		"a name":                 {"config: {pwd: " + planted + ", key-passphrase: " + planted + "}", "", `pwd: "***"`},
		"a name, spelled with _": {"config: {api_key: " + planted + ", AWS_ACCESS_KEY: " + planted + ", privateKey: " + planted + ", connection_string: " + planted + "}", "", `api_key: "***"`},
		"a key in a chain":       {"connection-config: {security.protocol: SSL, ssl.keystore.certificate.chain: '${CHAIN}'}", "CHAIN=" + chain, `ssl.keystore.certificate.chain: "***"`},
		"a parameter of ours":    {"config: {threshold: 5}", "", `threshold: "5"`},
	} {
		s, _ := loadFile(t, "bootstrap.servers: k:1\n"+c.text+"\n", c.env) // that the key is none does not matter
		if out := s.Print(); strings.Contains(out, planted) || !strings.Contains(out, c.want) {
			t.Errorf("%s: want %s:\n%s", name, c.want, out)
		}
	}
}

// A file that cannot be read is named with the reason, once.
func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := loadFile(t, "bootstrap.servers: k:1\nconnection-config:\n  security.protocol: SASL_SSL\n  sasl.mechanism: PLAIN\n  sasl.username: u\n  sasl.password-file: "+dir+"/none\n  sasl.password: x\n  ssl.truststore.location: "+dir)
	expect(t, err, ":6: connection-config.sasl.password-file: \""+dir+"/none\": no such file", `:8: ssl.truststore.location: "`+dir+`": is a directory`)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
}
