package supervisor

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	own := []string{
		"PATH=/bin", "FLOW_STREAMLET=s", "FLOW_POD_NAME=p", "FLOW_POD_NAMESPACE=n", "FLOW_PASSWORD=secret", "FLOW_=x",
		"KAFKA_PASSWORD=secret", "FLOWER=kept", "EQUALS=a=b", "ANKKA_FLOW_PROTOCOL=0.1", "MALLOC_TOP_PAD_=1", "EMPTY=",
	}
	before := slices.Clone(own)
	want := []string{
		"PATH=/bin", "FLOW_STREAMLET=s", "FLOW_POD_NAME=p", "FLOW_POD_NAMESPACE=n", "FLOWER=kept", "EQUALS=a=b", "MALLOC_TOP_PAD_=1", "EMPTY=",
		"ANKKA_FLOW_PROTOCOL=1.0", "MALLOC_TRIM_THRESHOLD_=268435456", "MALLOC_MMAP_THRESHOLD_=67108864",
	}
	if got := Environment(own, []string{"KAFKA_PASSWORD"}); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !slices.Equal(own, before) {
		t.Errorf("our own environment was changed: %q", own)
	}
}
