package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// image is what the steps of a Dockerfile came to.
type image struct {
	t                   *testing.T
	context             string
	root, dir, user     string
	env                 []string
	entrypoint, command []string
}

// buildImage carries out the steps of a Dockerfile in a folder as a container engine does, on a
// root made of Debian's packages in place of its FROM.
func buildImage(t *testing.T, context, dockerfile string) *image {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes a root file system and changes into it, which root alone may do: run it as root")
	}
	base := exec.Command(filepath.Join(repository, "scripts/debian-root"))
	out, err := base.Output()
	if err != nil {
		t.Fatalf("making the root file system: %v", err)
	}
	i := &image{t: t, context: context, root: filepath.Join(t.TempDir(), "root"), dir: "/", user: "0:0", env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}
	i.do("cp", "-a", strings.TrimSpace(string(out)), i.root)
	text, err := os.ReadFile(filepath.Join(context, dockerfile))
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
		i.do(append(append([]string{"chroot", i.root, "/usr/bin/env", "-i", i.env[0]}, i.network()...), "sh", "-ec", "cd "+i.dir+"; "+rest)...)
	case "ENV":
		i.env = append(i.env, rest)
	case "WORKDIR":
		i.dir = rest
		i.do("mkdir", "-p", i.root+i.dir)
	case "USER":
		if i.user = rest; !strings.Contains(rest, ":") {
			i.user += ":0" // as an engine does
		}
	case "ENTRYPOINT":
		i.entrypoint = i.list(rest)
	case "CMD":
		i.command = i.list(rest)
	default:
		i.t.Fatalf("no such step here: %s", line)
	}
}

// network gives the steps this machine's way to the outside, as an engine does: its
// resolver, the certificates that it trusts, its proxies and its index of packages.
func (i *image) network() (settings []string) {
	i.t.Helper()
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"} {
		i.do("cp", "-L", "--parents", file, i.root)
	}
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if strings.HasSuffix(strings.ToLower(name), "_proxy") || name == "PIP_INDEX_URL" {
			settings = append(settings, setting)
		}
	}
	return settings
}

// copy is COPY of one file, or of what is in one folder; the program itself is the one
// under test.
func (i *image) copy(names []string) {
	i.t.Helper()
	if len(names) != 2 {
		i.t.Fatalf("COPY of %q: one file or folder is copied here", names)
	}
	from, to := filepath.Join(i.context, names[0]), names[1]
	if names[0] == "ankka-flow" {
		from = binary
	}
	info, err := os.Stat(from)
	if err != nil {
		i.t.Fatalf("COPY: %v", err)
	}
	folder := strings.HasSuffix(to, "/") || to == "."
	if !strings.HasPrefix(to, "/") {
		to = filepath.Join(i.dir, to)
	}
	to = filepath.Join(i.root, to)
	if folder && !info.IsDir() {
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
	i := buildImage(t, repository, "examples/Dockerfile")
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

	// Without a broker there is no embedded one by accident.
	p = i.start()
	p.endsWith(2)
	p.says("no broker is named", "process 1 of a container", "--embedded")

	// Nor where something stands in front of it there, or in Kubernetes.
	if err := os.WriteFile(filepath.Join(i.root, ".dockerenv"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	i.entrypoint = []string{"sh", "-c", `"$@"; exit $?`, "sh", "ankka-flow", "run", "--"}
	p = i.start()
	p.endsWith(2)
	p.says("no broker is named", "process 1 of a container has launched this", "--embedded")
	dir := t.TempDir()
	p = startProgram(t, programOptions{dir: dir, env: []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}}, append([]string{"run", "--"}, misbehaves(t, "good")...)...)
	p.endsWith(2)
	p.says("no broker is named", "Kubernetes", "--embedded")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// SIGTERM while records come without an end and the handlers are busy: the exit comes within
// FLOW_STOP_TIMEOUT, with 0. With the broker gone in the midst of it, too, then with 1 where
// something has to be delivered again. What is committed is written.
func TestContainerStopsUnderLoad(t *testing.T) {
	t.Parallel()
	i := buildImage(t, repository, "examples/Dockerfile")
	for _, gone := range []bool{false, true} {
		b := newBrokerWith(t, 4)
		script := filepath.Join(i.root, i.dir, "busy.py")
		if err := os.WriteFile(script, []byte(busyInContainer), 0o644); err != nil {
			t.Fatal(err)
		}
		i.command = []string{"python3", "busy.py"}
		p := i.start("FLOW_BROKERS=" + b.address())
		stopLoad := b.load()
		t.Cleanup(stopLoad)
		eventually(t, "records go through under load", func() bool { return b.committed(0) > 50 && b.committed(3) > 50 })
		if gone {
			b.cluster.Close()
		}
		asked := time.Now()
		i.terminate(p)
		code := p.wait()
		took := time.Since(asked)
		stopLoad()
		t.Logf("broker gone: %v: SIGTERM to exit in %v with %d", gone, took, code)
		if code != 0 && (!gone || code != 1) {
			t.Errorf("broker gone: %v: exit code %d", gone, code)
		}
		// Over the 5 s of FLOW_STOP_TIMEOUT there is only what the machine takes to end a process.
		if took > 15*time.Second {
			t.Errorf("broker gone: %v: SIGTERM to exit took %v", gone, took)
		}
		if gone {
			continue
		}
		written := map[string]bool{}
		for _, r := range b.out() {
			written[string(r.Key)] = true
		}
		for partition := range int32(4) {
			for offset := range b.committed(partition) {
				if key := fmt.Sprintf("p%d-%d", partition, offset); !written[key] {
					t.Errorf("%s is committed and not written", key)
				}
			}
		}
	}
}

// busyInContainer computes for a while with every record.
const busyInContainer = `
import time
from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

class Case(Streamlet):
    name = "case"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")

    def process_record(self, record, ctx):
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            pass
        return self.out.emit(record)

serve(Case())
`

// load writes 4,000 records a second to four partitions, with the key pP-OFFSET each, until it
// is stopped.
func (b *caseBroker) load() (stop func()) {
	b.t.Helper()
	client, _ := franz(b.t, b.address())
	done, enough := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop; awaited by it
		defer close(done)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for count := 0; ; count += 20 {
			select {
			case <-pace.C:
			case <-enough:
				return
			}
			var records []*kgo.Record
			for n := range 80 {
				records = append(records, &kgo.Record{Topic: caseIn, Partition: int32(n % 4), Key: fmt.Appendf(nil, "p%d-%d", n%4, count+n/4), Value: []byte("v")})
			}
			if client.ProduceSync(b.ctx, records...).FirstErr() != nil {
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(enough)
		client.Close() // which ends a write whose answer never comes
		<-done
	})
}

// What new writes has a Dockerfile whose steps can be carried out in its folder, with the
// program beside it, and the image runs.
func TestContainerOfANewStreamlet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, _ := runProgram(t, programOptions{dir: dir}, "new", "hello"); code != 0 {
		t.Fatalf("new: exit code %d", code)
	}
	i := buildImage(t, filepath.Join(dir, "hello"), "Dockerfile")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "hello.in", "hello.out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, _ := franz(t, cluster.ListenAddrs()[0])
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "hello.in", Value: []byte(`{"total": 3}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p := i.start("FLOW_BROKERS=" + cluster.ListenAddrs()[0])
	p.await(`committed +1 in, 1 out, 0 behind`)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "Uid:\t65532\t") || !strings.Contains(string(status), "\t1\n") {
		t.Errorf("it does not run as process 1 with the image's uid: %v\n%s", err, status)
	}
	i.terminate(p)
	p.endsWith(0)
}

// terminate is what a container engine does first.
func (i *image) terminate(p *program) {
	i.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		i.t.Fatal(err)
	}
}

// inMemoryGroup is a stage: in a cgroup of its own with a limit of memory.
type inMemoryGroup struct{ folder string }

func (c *inMemoryGroup) prepare(cmd *exec.Cmd) io.Reader {
	cmd.Args = append([]string{"sh", "-ec", `echo $$ > "$1/cgroup.procs"; shift; exec "$@"`, "sh", c.folder, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return nil
}

func (*inMemoryGroup) started() {}

// memoryGroup makes one of 200 MB, with cgroups of v1 or v2, where this machine lets it.
func memoryGroup(t *testing.T) (stage, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(membership)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		root, limit := "/sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			root, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		folder := filepath.Join(root, fields[2], fmt.Sprintf("ankka-flow-test-%d", os.Getpid()))
		if err = os.Mkdir(folder, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() {
			eventually(t, "its cgroup is empty", func() bool { return os.Remove(folder) == nil })
		})
		if err = os.WriteFile(filepath.Join(folder, limit), []byte("200000000"), 0o644); err == nil {
			return &inMemoryGroup{folder}, nil
		}
	}
	return nil, err
}

// inCountedGroup is a stage: process 1 of a namespace whose cgroup is a folder of the test's.
type inCountedGroup struct {
	*process1
	folder string
}

func (c *inCountedGroup) prepare(cmd *exec.Cmd) io.Reader {
	stderr := c.process1.prepare(cmd)
	cmd.Args[2] = `mount --bind "` + c.folder + `" /sys/fs/cgroup; ` + cmd.Args[2]
	cmd.Args[2] = `mount --make-rprivate /; ` + cmd.Args[2]
	return stderr
}

// A process that the kernel kills for memory is named so: where a group with a limit can be
// made, really; and everywhere with a count that the test raises.
func TestOutOfMemoryIsNamed(t *testing.T) {
	t.Parallel()
	counted := &inCountedGroup{newProcess1(t), t.TempDir()}
	count := filepath.Join(counted.folder, "memory.events")
	if err := os.WriteFile(count, []byte("oom_kill 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ways := map[string]struct {
		at   stage
		mode []string
	}{"counted": {counted, misbehaves(t, "killed-for-memory", "--until", count)}}
	if limited, err := memoryGroup(t); err != nil {
		t.Logf("no cgroup with a limit can be made here: %v", err)
	} else {
		ways["limited"] = struct {
			at   stage
			mode []string
		}{limited, misbehaves(t, "eats-memory")}
	}
	for name, way := range ways {
		b := newCaseBroker(t)
		b.putN(1)
		p := b.runCaseAt(way.at, nil, []string{"--exit-on-failure"}, way.mode)
		p.endsWith(137)
		p.says("ERR process", "killed by SIGKILL", "out of memory")
		t.Log(name)
	}
}
