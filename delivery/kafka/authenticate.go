package kafka

import (
	"context"
	"fmt"
	"math"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

const (
	saslHandshakeKey        = 17
	saslHandshakeVersion    = 1
	saslAuthenticateKey     = 36
	saslAuthenticateVersion = 1 // has the session's lifetime (KIP-368); Kafka 2.2
)

// authenticate goes through the SASL handshake and the mechanism's exchange.
// Error: a kafkago.Error with the broker's code, the mechanism's own, or the
// connection's.
func (x *connecting) authenticate(ctx context.Context) error {
	mechanism := x.c.cfg.SASL
	x.enter(stepMechanism)
	code, offered, err := x.handshake(mechanism.Name())
	if err != nil {
		return err
	}
	if code != codeNone {
		x.offered = offered
		return kafkago.Error(code)
	}
	host, port := splitHostPort(x.address)
	session, bytes, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: port}))
	if err != nil {
		return fmt.Errorf("beginning %s: %w", mechanism.Name(), err)
	}
	for done := false; !done; {
		x.enter(stepAuthenticate)
		answer, lifetime, err := x.prove(bytes)
		if err != nil {
			return err
		}
		if done, bytes, err = session.Next(ctx, answer); err != nil {
			return fmt.Errorf("%s: %w", mechanism.Name(), err)
		}
		if done && lifetime > 0 {
			x.raw.expireAfter(time.Duration(float64(lifetime) * renewAt))
		}
	}
	return nil
}

// handshake names a mechanism to the broker; where it does not have that, it
// answers with those that it has.
func (x *connecting) handshake(mechanism string) (code int16, offered []string, err error) {
	src, err := x.ask(saslHandshakeKey, saslHandshakeVersion, appendString(nil, mechanism))
	if err != nil {
		return 0, nil, err
	}
	return decodeHandshake(src)
}

func decodeHandshake(src []byte) (code int16, offered []string, err error) {
	d := decoder{src: src}
	code = d.int16()
	for range d.count(2) {
		offered = append(offered, d.string())
	}
	return code, offered, d.err
}

// prove sends one message of the exchange. The broker's own words about a
// refusal are left out: they say no more than the code, and might quote.
func (x *connecting) prove(message []byte) (answer []byte, lifetime time.Duration, err error) {
	src, err := x.ask(saslAuthenticateKey, saslAuthenticateVersion, append(appendInt32(nil, int32(len(message))), message...))
	if err != nil {
		return nil, 0, err
	}
	return decodeProof(src)
}

func decodeProof(src []byte) (answer []byte, lifetime time.Duration, err error) {
	d := decoder{src: src}
	code := d.int16()
	d.string()
	if n := d.int32(); n > 0 {
		answer = d.take(int(n))
	}
	const most = math.MaxInt64 / int64(time.Millisecond) // a longer one would come out below 0
	lifetime = time.Duration(min(max(d.int64(), 0), most)) * time.Millisecond
	if d.err == nil && code != codeNone {
		return nil, 0, kafkago.Error(code)
	}
	return answer, lifetime, d.err
}
