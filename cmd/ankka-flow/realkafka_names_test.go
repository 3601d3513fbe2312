//go:build kafka

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const namesOfJava = `
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

class Names {
    public static void main(String[] args) {
        var names = new java.util.TreeSet<>(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        names.addAll(AdminClientConfig.configNames());
        names.forEach(System.out::println);
    }
}`

// The list that the configuration's table is held against has every name that the Java
// clients define: consumer, producer and admin.
func TestKafka_JavaNamesAreTheClients(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "Names.java")
	if err := os.WriteFile(source, []byte(namesOfJava), 0o600); err != nil {
		t.Fatal(err)
	}
	libs, err := filepath.Glob(filepath.Join(repository, ".cache/kafka/libs-*"))
	if err != nil || len(libs) == 0 {
		t.Fatalf("the jars are brought by scripts/kafka: %v", err)
	}
	out, err := exec.Command("java", "-cp", libs[len(libs)-1]+"/*", source).Output()
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("config/testdata/java-client-4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, have, _ := strings.Cut(string(list), "\n")
	if want := strings.Fields(string(out)); len(want) < 100 || !slices.Equal(strings.Fields(have), want) {
		t.Errorf("the clients' names are\n%s", out)
	}
}
