package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// image is what the steps of a Dockerfile came to.
type image struct {
	t                   *testing.T
	root, dir, user     string
	env                 []string
	entrypoint, command []string
}

// buildImage carries out the steps of a Dockerfile as a container engine does, on a root
// made of Debian's packages in place of its FROM.
func buildImage(t *testing.T, dockerfile string) *image {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes a root file system and changes into it, which root alone may do: run it as root")
	}
	base := exec.Command(filepath.Join(repository, "scripts/debian-root"))
	out, err := base.Output()
	if err != nil {
		t.Fatalf("making the root file system: %v", err)
	}
	i := &image{t: t, root: filepath.Join(t.TempDir(), "root"), dir: "/", user: "0:0", env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}
	i.do("cp", "-a", strings.TrimSpace(string(out)), i.root)
	text, err := os.ReadFile(filepath.Join(repository, dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			i.step(line)
		}
	}
	return i
}

func (i *image) step(line string) {
	i.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "FROM", "EXPOSE":
	case "COPY":
		i.copy(strings.Fields(rest))
	case "RUN":
		i.do("chroot", i.root, "/usr/bin/env", "-i", i.env[0], "sh", "-ec", "cd "+i.dir+"; "+rest)
	case "ENV":
		i.env = append(i.env, rest)
	case "WORKDIR":
		i.dir = rest
	case "USER":
		i.user = rest
	case "ENTRYPOINT":
		i.entrypoint = i.list(rest)
	case "CMD":
		i.command = i.list(rest)
	default:
		i.t.Fatalf("no such step here: %s", line)
	}
}

// copy is COPY of one file or folder; the program itself is the one under test.
func (i *image) copy(names []string) {
	i.t.Helper()
	if len(names) != 2 {
		i.t.Fatalf("COPY of %q: one file or folder is copied here", names)
	}
	from, to := filepath.Join(repository, names[0]), i.root+names[1]
	if names[0] == "ankka-flow" {
		from = binary
	}
	if strings.HasSuffix(names[1], "/") {
		to = filepath.Join(to, filepath.Base(names[0]))
	}
	i.do("mkdir", "-p", filepath.Dir(to))
	i.do("cp", "-rT", from, to)
}

func (i *image) do(command ...string) {
	i.t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		i.t.Fatalf("%q: %v\n%s", command, err, out)
	}
}

func (i *image) list(text string) (words []string) {
	i.t.Helper()
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		i.t.Fatalf("%s: %v", text, err)
	}
	return words
}

// inContainer is a stage: process 1 of a namespace, in the image, which is read-only.
type inContainer struct{ i *image }

func (c *inContainer) prepare(cmd *exec.Cmd) io.Reader {
	c.i.t.Helper()
	const enter = `mount --make-rprivate /; mount --bind "$1" "$1"; mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"
mount -o remount,ro,bind "$1"; root=$1 user=$2; shift 2; exec chroot --userspec="$user" "$root" "$@"`
	sh, err := exec.LookPath("sh")
	if err != nil {
		c.i.t.Fatal(err)
	}
	inside := append([]string{"/usr/bin/env", "-i", "-C", c.i.dir}, c.i.env...)
	for _, setting := range cmd.Env {
		if strings.HasPrefix(setting, "FLOW_") {
			inside = append(inside, setting)
		}
	}
	inside = append(append(inside, c.i.entrypoint...), c.i.command...)
	cmd.Path, cmd.Args = sh, append([]string{"sh", "-ec", enter, "sh", c.i.root, c.i.user}, inside...)
	cmd.SysProcAttr = namespaces(c.i.t)
	return nil
}

func (*inContainer) started() {}

// start runs the image with these settings.
func (i *image) start(env ...string) *program {
	i.t.Helper()
	return startProgram(i.t, programOptions{stage: &inContainer{i}, env: append(caseEnv("FLOW_LOG_FORMAT=text", "FLOW_METRICS_PORT=0"), env...)})
}

// The Dockerfile of the example: its steps are carried out, and what comes of them runs as
// process 1, with a uid that nobody has, on a root that nobody can write to.
func TestContainerOfTheExample(t *testing.T) {
	t.Parallel()
	i := buildImage(t, "examples/Dockerfile")
	topics := []string{"cart-router.in", "cart-router.valid", "cart-router.review"}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, admin := franz(t, cluster.ListenAddrs()[0])
	put := func(n int) {
		t.Helper()
		for k := range n {
			r := &kgo.Record{Topic: topics[0], Value: fmt.Appendf(nil, `{"total": %d}`, 50+100*(k%2))}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	written := func(topic string) int64 {
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(topic, 0)
		return end.Offset
	}

	p := i.start("FLOW_BROKERS=" + cluster.ListenAddrs()[0])
	put(10)
	eventually(t, "every cart is routed", func() bool { return written(topics[1]) == 5 && written(topics[2]) == 5 })
	p.says("WRN state", "read-only file system") // one line: the probes over HTTP need no folder
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "Uid:\t10001\t") || !strings.Contains(string(status), "\t1\n") {
		t.Errorf("it does not run as process 1 with the image's uid: %v\n%s", err, status)
	}
	i.terminate(p)
	p.endsWith(0)

	// With the broker gone and carts on their way: it ends within its time all the same, with 0,
	// or with 1 where something has to be delivered again.
	put(200)
	p = i.start("FLOW_BROKERS=" + cluster.ListenAddrs()[0])
	p.await(`INF ready`)
	cluster.Close()
	i.terminate(p)
	asked := time.Now()
	if code := p.wait(); code > 1 || time.Since(asked) > 20*time.Second {
		t.Errorf("exit code %d after %v, want 0 or 1 within the 5 s of FLOW_STOP_TIMEOUT", code, time.Since(asked))
	}

	// Without a broker there is no embedded one by accident.
	p = i.start()
	p.endsWith(2)
	p.says("no broker is named", "process 1 of a container", "--embedded")
}

// terminate is what a container engine does first.
func (i *image) terminate(p *program) {
	i.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		i.t.Fatal(err)
	}
}
