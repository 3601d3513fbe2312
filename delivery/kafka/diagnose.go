package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

const (
	// diagnoseLimit bounds all that is tried to find out what a port speaks.
	diagnoseLimit = 1500 * time.Millisecond
	// diagnoseAgain is for how long an answer holds; another failure in that
	// time has the same cause.
	diagnoseAgain = 30 * time.Second
)

// diagnosis is what a port was found to speak; "": nothing that we know.
type diagnosis struct {
	at   time.Time
	text string
}

// diagnosed finds out by trying what a port speaks that has hung up or stays
// silent, and says what that means for the configuration; "" where it is not
// found out. A port is asked at most once in diagnoseAgain.
func (c *Client) diagnosed(ctx context.Context, x *connecting) string {
	c.reach.mu.Lock()
	known, ok := c.reach.diagnoses[x.address]
	c.reach.mu.Unlock()
	if ok && time.Since(known.at) < diagnoseAgain {
		return known.text
	}
	// The step may have used up its own time; the client's end ends this too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnoseLimit)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	text := ""
	tries := []func(context.Context, net.Conn) string{c.speaksPlain, c.wantsSASL, c.speaksHTTP}
	switch {
	case c.cfg.TLS == nil:
		tries = []func(context.Context, net.Conn) string{c.speaksTLS, c.wantsSASL, c.speaksHTTP}
	case x.step != stepTLS:
		tries = []func(context.Context, net.Conn) string{c.wantsSASL, c.speaksHTTP}
	}
	for i := 0; i < len(tries) && text == "" && ctx.Err() == nil; i++ {
		text = c.try(ctx, x, tries[i])
	}
	c.reach.mu.Lock()
	c.reach.diagnoses[x.address] = diagnosis{time.Now(), text}
	c.reach.mu.Unlock()
	return text
}

// try opens a connection for one question.
func (c *Client) try(ctx context.Context, x *connecting, question func(context.Context, net.Conn) string) string {
	nc, err := c.conns.dial(ctx, "tcp", x.address, c.cfg.DialTimeout, diagnoseLimit)
	if err != nil {
		return ""
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, nc.interrupt)()
	nc.SetDeadline(time.Now().Add(diagnoseLimit / 3)) // an error shows in the question
	if x.c.cfg.TLS != nil && x.step != stepTLS {
		t := tls.Client(nc, c.tlsFor(x.address))
		if t.HandshakeContext(ctx) != nil {
			return ""
		}
		return question(ctx, t)
	}
	return question(ctx, nc)
}

// speaksTLS: whatever comes of the handshake, the other side knows TLS. Nothing
// is sent to it, so its certificate is nobody's business here.
func (c *Client) speaksTLS(ctx context.Context, nc net.Conn) string {
	err := tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	if err == nil || strings.Contains(err.Error(), "remote error: tls: ") {
		return tlsWanted
	}
	return (&connecting{c: c}).wrongPort(err)
}

func (c *Client) speaksPlain(_ context.Context, nc net.Conn) string {
	x := &connecting{c: c, conn: nc}
	_, err := x.ask(18, 0, nil) // ApiVersions, which every broker answers
	if err == nil {
		return tlsLess
	}
	return x.wrongPort(nil)
}

// wantsSASL asks for a mechanism that nobody has, and gets a list of those that
// there are.
func (c *Client) wantsSASL(_ context.Context, nc net.Conn) string {
	x := &connecting{c: c, conn: nc}
	code, offered, err := x.handshake("NONE")
	switch {
	case err != nil:
		return x.wrongPort(nil)
	case kafkago.Error(code) != kafkago.UnsupportedSASLMechanism || c.cfg.SASL != nil:
		return ""
	}
	protocol := "SASL_PLAINTEXT"
	if c.cfg.TLS != nil {
		protocol = "SASL_SSL"
	}
	return fmt.Sprintf("the port expects SASL (it offers %s): set security.protocol to %s and sasl.mechanism", strings.Join(offered, ", "), protocol)
}

func (c *Client) speaksHTTP(_ context.Context, nc net.Conn) string {
	var answer [5]byte
	if _, err := io.WriteString(nc, "HEAD / HTTP/1.0\r\n\r\n"); err != nil {
		return ""
	}
	if _, err := io.ReadFull(nc, answer[:]); err != nil || string(answer[:]) != "HTTP/" {
		return ""
	}
	return httpPort
}
