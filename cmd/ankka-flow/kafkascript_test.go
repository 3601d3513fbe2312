package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without Java, Maven and openssl, and without apt to bring them, the
// tests on a real Kafka fail with one line that names all three: nothing is
// skipped in silence.
func TestKafkaScriptNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	found, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // python3 may be a wrapper
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "scripts/kafka"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "scripts", "kafka") // beside no jars
	if err := os.Mkdir(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strings.TrimSpace(string(found)), script, "up", "3")
	cmd.Env = []string{"PATH=" + dir, "KAFKA_RUN=" + filepath.Join(dir, "run")}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("it found what is not there")
	}
	line := strings.TrimSuffix(string(out), "\n")
	for _, word := range []string{"java", "mvn", "openssl", "apt-get install default-jre-headless maven openssl"} {
		if !strings.Contains(line, word) {
			t.Errorf("%q is not in %q", word, line)
		}
	}
	if strings.Contains(line, "\n") {
		t.Errorf("more than one line: %q", line)
	}
}
