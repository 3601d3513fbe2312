package config

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// errorVectors are the settings of error handling that every SDK's tests read too.
type errorVectors struct {
	Names []struct {
		Name, Default string
		KIP           bool
	}
	Good, Bad, Misspelt [][2]string
}

func readErrorVectors(t *testing.T) errorVectors {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "sdk", "testdata", "errors", "settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v errorVectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestErrorSettingsAreThoseOfTheSDKs(t *testing.T) {
	var have, want []string
	for _, k := range errorKeys() {
		have = append(have, k.Name)
	}
	for _, row := range readErrorVectors(t).Names {
		want = append(want, row.Name)
		k := keyOfPath("errors." + row.Name)
		if k == nil {
			t.Errorf("errors.%s is no key", row.Name)
			continue
		}
		if said := "(default: " + row.Default; row.Name != deadLetterTopic && !strings.Contains(k.Meaning, said) {
			t.Errorf("errors.%s does not say %q", row.Name, said)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("the settings are %v, those of the SDKs %v", have, want)
	}
}

// The supervisor refuses what an SDK would, before anything is started, in the file
// with both spellings and in the environment.
func TestErrorSettingsAreJudged(t *testing.T) {
	v := readErrorVectors(t)
	for _, setting := range v.Good {
		for _, spelling := range []string{"errors: {", "errors: {errors.", "errors."} {
			text := spelling + setting[0] + `: "` + setting[1] + `"`
			if strings.HasPrefix(spelling, "errors: {") {
				text += "}"
			}
			s, err := loadFile(t, "embedded: true\n"+text)
			if err != nil || !maps.Equal(s.Errors, map[string]string{setting[0]: setting[1]}) {
				t.Errorf("%s: %v, %v", text, s.Errors, err)
			}
		}
		variable := keyOfPath("errors." + setting[0]).Variable()
		s, err := loadFile(t, "embedded: true", variable+"="+setting[1])
		if err != nil || !maps.Equal(s.Errors, map[string]string{setting[0]: setting[1]}) {
			t.Errorf("%s=%s: %v, %v", variable, setting[1], s.Errors, err)
		}
	}
	for _, setting := range v.Bad {
		text := "errors: {" + setting[0] + `: "` + setting[1] + `"}`
		if _, err := loadFile(t, "embedded: true\n"+text); err == nil || !strings.Contains(err.Error(), "errors."+setting[0]) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCase80_MisspeltErrorSettingNamesTheNearest(t *testing.T) {
	for _, names := range readErrorVectors(t).Misspelt {
		_, err := loadFile(t, "embedded: true\nerrors: {"+names[0]+": \"1\"}")
		if err == nil || !strings.Contains(err.Error(), "did you mean "+names[1]+"?") {
			t.Errorf("%s: %v", names[0], err)
		}
	}
}

func TestErrorSettingsAllProblemsAtOnce(t *testing.T) {
	_, err := loadFile(t, "embedded: true\nerrors: {retry.timeout: 1m, errors.tolerance: some, tolerance: all, log.enable: 1}")
	if err == nil {
		t.Fatal("no problem")
	}
	for _, want := range []string{"retry.timeout", "none or all", "also set", "true or false"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
