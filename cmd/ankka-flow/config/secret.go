package config

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// hiddenText stands for a secret wherever it would be shown.
const hiddenText = "***"

// Secret is a text that is shown as ***, whichever way it is printed, logged or
// encoded. The zero value is the empty text.
type Secret struct{ text string }

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal is the text, for who has to use it.
func (s Secret) Reveal() string { return s.text }

// String implements fmt.Stringer: ***.
func (Secret) String() string { return hiddenText }

// GoString implements fmt.GoStringer, for %#v.
func (Secret) GoString() string { return hiddenText }

// Format implements fmt.Formatter, for the verbs that would look into the struct.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenText)) } // fmt's own buffer takes everything

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenText), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hiddenText) }

// login is what may stand in front of the last @ of a URL or of a broker's address.
var login = regexp.MustCompile(`[^\s",]+@`)

// withoutLogins is a text with *** in place of user and password of URLs and addresses.
func withoutLogins(text string) string {
	return login.ReplaceAllStringFunc(text, func(found string) string {
		protocol, _, ok := strings.Cut(found, "://")
		if !ok {
			return hiddenText + "@"
		}
		return protocol + "://" + hiddenText + "@"
	})
}
