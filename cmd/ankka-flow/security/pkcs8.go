package security

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// errWrongPassword says that the password does not open the key.
var errWrongPassword = errors.New("wrong password")

// maxIterations bounds the work that a key's file may ask for: OpenSSL writes
// 2,048, Java 10,000, careful people a million.
const maxIterations = 20_000_000

// The parts of RFC 5958 (EncryptedPrivateKeyInfo) and RFC 8018 (PBES2, PBKDF2)
// that OpenSSL and Java write. The standard library has what they are made of
// but not these; the modules that do have no releases or ask for far more.
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Params struct {
		Derivation, Encryption pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		Length     int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}

	// pseudorandom functions, by object identifier
	hashes = map[string]func() hash.Hash{
		"":                    sha1.New, // the default
		"1.2.840.113549.2.7":  sha1.New,
		"1.2.840.113549.2.9":  sha256.New,
		"1.2.840.113549.2.10": sha512.New384,
		"1.2.840.113549.2.11": sha512.New,
	}
	// block ciphers in CBC mode, by object identifier
	ciphers = map[string]struct {
		length int // of the key, bytes
		open   func([]byte) (cipher.Block, error)
	}{
		"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
		"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
		"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
		"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
	}
)

// decryptPKCS8 opens an encrypted PKCS#8 key and gives it as plain PKCS#8:
// PBES2 with PBKDF2 and AES or triple DES in CBC mode. Errors:
// errWrongPassword, or in words what is not supported.
func decryptPKCS8(der, password []byte) ([]byte, error) {
	var key encryptedKey
	if err := unmarshal(der, &key); err != nil {
		return nil, err
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("its encryption (%v) is not PBES2: `openssl pkcs8 -topk8` writes a key again", key.Algorithm.Algorithm)
	}
	var params pbes2Params
	if err := unmarshal(key.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	if !params.Derivation.Algorithm.Equal(oidPBKDF2) {
		return nil, fmt.Errorf("its key derivation (%v) is not PBKDF2: `openssl pkcs8 -topk8` writes a key again", params.Derivation.Algorithm)
	}
	var derive pbkdf2Params
	if err := unmarshal(params.Derivation.Parameters.FullBytes, &derive); err != nil {
		return nil, err
	}
	prf := ""
	if len(derive.PRF.Algorithm) > 0 {
		prf = derive.PRF.Algorithm.String()
	}
	newHash, ok := hashes[prf]
	if !ok {
		return nil, fmt.Errorf("its hash (%s) is not supported", prf)
	}
	mode, ok := ciphers[params.Encryption.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("its cipher (%v) is not AES or triple DES in CBC mode", params.Encryption.Algorithm)
	}
	if derive.Iterations < 1 || derive.Iterations > maxIterations {
		return nil, fmt.Errorf("it asks for %d iterations", derive.Iterations)
	}
	var iv []byte
	if err := unmarshal(params.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	secret, err := pbkdf2.Key(newHash, string(password), derive.Salt, derive.Iterations, mode.length)
	if err != nil {
		return nil, fmt.Errorf("its key cannot be derived: %w", err)
	}
	block, err := mode.open(secret)
	if err != nil {
		return nil, fmt.Errorf("its cipher: %w", err)
	}
	if len(iv) != block.BlockSize() || len(key.Data) == 0 || len(key.Data)%block.BlockSize() != 0 {
		return nil, errors.New("it is damaged")
	}
	plain := make([]byte, len(key.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, key.Data)
	return unpad(plain, block.BlockSize())
}

// unpad takes PKCS#7 padding off; what is not padded was not decrypted.
func unpad(plain []byte, size int) ([]byte, error) {
	n := int(plain[len(plain)-1])
	if n < 1 || n > size {
		return nil, errWrongPassword
	}
	for _, b := range plain[len(plain)-n:] {
		if int(b) != n {
			return nil, errWrongPassword
		}
	}
	return plain[:len(plain)-n], nil
}

func unmarshal(der []byte, to any) error {
	if rest, err := asn1.Unmarshal(der, to); err != nil || len(rest) > 0 {
		return errors.New("it is damaged")
	}
	return nil
}
