package security

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// parseKey reads the private key of a PEM text: PKCS#8, plain or encrypted,
// PKCS#1 or SEC 1; nil where a problem was reported. No error of a parser is
// passed on, since it may quote what it read.
func parseKey(text []byte, password string, report report) crypto.Signer {
	var block *pem.Block
	for rest := text; ; {
		if block, rest = pem.Decode(rest); block == nil {
			if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
				report("%s: its private key is damaged or cut off; inside JSON or YAML the line breaks may be lost", keySetting)
			} else {
				report("%s: it has no PEM private key (-----BEGIN PRIVATE KEY-----)", keySetting)
			}
			return nil
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			break
		}
	}
	der := block.Bytes
	switch {
	case block.Headers["DEK-Info"] != "":
		report("%s: its private key is encrypted in OpenSSL's old format, which is not supported: `openssl pkcs8 -topk8` makes PKCS#8 of it", keySetting)
		return nil
	case block.Type == "ENCRYPTED PRIVATE KEY" && password == "":
		report("ssl.key.password: it is missing, and the private key of %s is encrypted", keySetting)
		return nil
	case block.Type == "ENCRYPTED PRIVATE KEY":
		var err error
		if der, err = decryptPKCS8(der, []byte(password)); err != nil {
			if errors.Is(err, errWrongPassword) {
				report("ssl.key.password: it does not open the private key of %s", keySetting)
			} else {
				report("%s: its encrypted private key cannot be read: %v", keySetting, err)
			}
			return nil
		}
	}
	// An unencrypted key with a password is Java's to allow, and ours.
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(der)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(der)
	default:
		key, err = x509.ParsePKCS8PrivateKey(der)
	}
	signer, ok := key.(crypto.Signer)
	switch {
	case err != nil && block.Type == "ENCRYPTED PRIVATE KEY":
		// The padding was right by chance: one wrong password in 256.
		report("ssl.key.password: it does not open the private key of %s", keySetting)
		return nil
	case err != nil:
		report("%s: its private key (%s) cannot be read", keySetting, block.Type)
		return nil
	case !ok:
		report("%s: its private key (%s) is of a kind that cannot sign", keySetting, block.Type)
		return nil
	}
	return signer
}
