//go:build kafka

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/faultproxy"
)

// setting is what scripts/kafka env prints for a name.
func (c *realCluster) setting(name string) string {
	c.t.Helper()
	for _, line := range strings.Split(c.script("env"), "\n") {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	c.t.Fatalf("scripts/kafka env does not print %s", name)
	return ""
}

// configured is a configuration file for one of the cluster's listeners.
func (c *realCluster) configured(listener string, connection ...string) string {
	c.t.Helper()
	return c.configuredAt(c.setting("KAFKA_"+listener), connection...)
}

func (c *realCluster) configuredAt(addresses string, connection ...string) string {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "flow.yaml")
	text := fmt.Sprintf("bootstrap.servers: %q\nconnection-config:\n", addresses)
	for _, line := range connection {
		text += "  " + line + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return file
}

func sasl(protocol, mechanism, user, password string) []string {
	return []string{"security.protocol: " + protocol, "sasl.mechanism: " + mechanism, "sasl.username: " + user, "sasl.password: " + password}
}

// Every way in that a broker has; and what each wrong one is called.
func TestKafka_Case60_Security(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "secure")
	trust := "ssl.truststore.location: " + c.setting("KAFKA_CA")
	tls := []string{"security.protocol: SSL", trust}
	for _, tt := range []struct {
		name, listener string
		connection     []string
		want           []string // nil: the record is written
	}{
		{"PLAIN", "SASL", sasl("SASL_PLAINTEXT", "PLAIN", "admin", "admin-secret"), nil},
		{"SCRAM-SHA-256", "SASL", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", "admin", "admin-secret"), nil},
		{"SCRAM-SHA-512", "SASL", sasl("SASL_PLAINTEXT", "SCRAM-SHA-512", "admin", "admin-secret"), nil},
		{"TLS", "SSL", tls, nil},
		{"SCRAM over TLS", "SASL_SSL", append(sasl("SASL_SSL", "SCRAM-SHA-512", "admin", "admin-secret"), trust), nil},
		{"a wrong password", "SASL", sasl("SASL_PLAINTEXT", "SCRAM-SHA-512", "admin", "wrong"), []string{"password"}},
		{"an authority that is not trusted", "SSL", tls[:1], []string{"TLS", "ssl.truststore"}},
		{"plain to TLS", "SSL", []string{"security.protocol: PLAINTEXT"}, []string{"TLS", "security.protocol"}},
		{"TLS to plain", "PLAINTEXT", tls, []string{"TLS", "security.protocol"}},
		{"no SASL to SASL", "SASL", []string{"security.protocol: PLAINTEXT"}, []string{"SASL"}},
		{"no right", "SASL", sasl("SASL_PLAINTEXT", "PLAIN", "bob", "bob-secret"), []string{"secure"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config := c.configured(tt.listener, tt.connection...)
			code, _, stderr := runProgram(t, programOptions{stdin: "{\"value\":1}\n"}, "produce", "-c", config, "secure")
			if (code == 0) != (tt.want == nil) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			for _, word := range tt.want {
				if !strings.Contains(stderr, word) {
					t.Errorf("%q is not in: %s", word, stderr)
				}
			}
		})
	}
}

// A broker that stops answering in the middle of SASL is named with that step,
// and a stop ends the run in time; when it answers again the work goes on.
func TestKafka_Case61_SilentAmidSASL(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "silent.in", "silent.out")
	var silent atomic.Bool
	silent.Store(true)
	proxy, err := faultproxy.Start(strings.Split(c.setting("KAFKA_SASL"), ","), faultproxy.Config{Requested: func(r *faultproxy.Request) faultproxy.Plan {
		mute := silent.Load() && r.Key == kmsg.SASLAuthenticate
		return faultproxy.Plan{Withheld: mute, Mute: mute}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	run := func() *program {
		config := c.configuredAt(strings.Join(proxy.Addresses(), ","), sasl("SASL_PLAINTEXT", "SCRAM-SHA-512", "admin", "admin-secret")...)
		args := append([]string{"--log-format", "text", "-c", config, "run", "--pipeline", "silent", "--"}, misbehaves(t, "good")...)
		return startProgram(t, programOptions{dir: t.TempDir(), env: []string{"FLOW_SESSION_TIMEOUT=6s", "FLOW_STOP_TIMEOUT=4s", "FLOW_METRICS_PORT=0"}}, args...)
	}
	p := run()
	p.await(`(WRN|ERR) .*SASL`)
	began := time.Now()
	p.interrupt()
	<-p.exited
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v, with FLOW_STOP_TIMEOUT=4s", took)
	}
	p = run()
	p.await(`(WRN|ERR) .*SASL`)
	silent.Store(false)
	c.put("silent.in", numbered(0, 10)...)
	c.awaitEnd("silent")
	p.stopsWell()
}

// A right to write that is missing is named, and when it is given the work goes
// on without a restart.
func TestKafka_Case50_ARightIsGiven(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "rights.in", "rights.out")
	c.put("rights.in", numbered(0, 10)...)
	allow := func(b *kadm.ACLBuilder) {
		b = b.Allow("User:bob").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
		made, err := c.admin.CreateACLs(c.ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range made {
			if one.Err != nil {
				t.Fatal(one.Err)
			}
		}
	}
	allow(kadm.NewACLs().Topics("rights.in").Groups(groupOf("rights")).Operations(kmsg.ACLOperationRead, kmsg.ACLOperationDescribe))
	allow(kadm.NewACLs().Topics("rights.out").Operations(kmsg.ACLOperationDescribe))
	config := c.configured("SASL", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob", "bob-secret")...)
	args := append([]string{"--log-format", "text", "-c", config, "run", "--pipeline", "rights", "--"}, misbehaves(t, "good")...)
	p := startProgram(t, programOptions{dir: t.TempDir(), env: []string{"FLOW_SESSION_TIMEOUT=6s", "FLOW_RECONNECT_MAX_BACKOFF=1s"}}, args...)
	p.await(`ERR kafka +nothing can be written: .*User:bob needs .*WRITE on a topic`)
	if at := c.committed("rights")[0]; at > 0 {
		t.Errorf("committed at %d, and nothing may be written", at)
	}
	allow(kadm.NewACLs().Topics("rights.out").Operations(kmsg.ACLOperationWrite))
	c.awaitEnd("rights")
	if out := c.read("rights.out")[0]; keys(out) != keys(numbered(0, 10)) {
		t.Errorf("written: %s", keys(out))
	}
	p.stopsWell()
}
