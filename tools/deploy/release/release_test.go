package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// TestReleaseReadBack builds a release for this machine's architecture and looks at all that it wrote.
func TestReleaseReadBack(t *testing.T) {
	r := &release{
		source: "../../..", out: filepath.Join(t.TempDir(), "release"), version: "v9.8.7", commit: testCommit,
		time: time.Unix(1700000000, 0).UTC(), archs: []string{runtime.GOARCH},
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("programs", r.programsSayWhatTheyAre)
	t.Run("sbom", r.sbomNamesWhatIsLinked)
	t.Run("archive", r.archiveHasAll)
	t.Run("image", r.imageIsAsTheDockerfileMakesIt)
	t.Run("checksums", r.checksumsAreThose)
	t.Run("again", r.sameBytesAgain)
}

func (r *release) programsSayWhatTheyAre(t *testing.T) {
	for _, p := range programs {
		if p == "iqctl" {
			continue
		}
		out, err := exec.Command(r.program(r.archs[0], p), "--version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), p+" v9.8.7 "+testCommit+" go") {
			t.Errorf("%s --version: %v %s", p, err, out)
		}
	}
}

func (r *release) sbomNamesWhatIsLinked(t *testing.T) {
	for _, p := range programs {
		data, err := os.ReadFile(filepath.Join(r.out, fmt.Sprintf("%s_9.8.7_linux_%s.cdx.json", p, r.archs[0])))
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			BOMFormat string
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(data, &bom); err != nil {
			t.Fatal(err)
		}
		if c := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || c.Name != "github.com/iqgate/iqgate" || c.Version != "v9.8.7" {
			t.Errorf("%s: format %q of %v", p, bom.BOMFormat, c)
		}
		var got, want []string
		for _, c := range bom.Components {
			if !strings.HasPrefix(c.PURL, "pkg:golang/") {
				t.Errorf("%s: component %s has the address %q", p, c.Name, c.PURL)
			}
			got = append(got, c.Name+" "+c.Version)
		}
		info, err := buildinfo.ReadFile(r.program(r.archs[0], p))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range info.Deps {
			want = append(want, d.Path+" "+d.Version)
		}
		want = append(want, "std "+info.GoVersion)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the SBOM names %v\nthe program was linked from %v", p, got, want)
		}
	}
}

// untar reads a tar file into memory.
func untar(t *testing.T, r io.Reader) (headers map[string]*tar.Header, files map[string][]byte) {
	t.Helper()
	headers, files = map[string]*tar.Header{}, map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return headers, files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(h.Name, "/") // of a folder
		headers[name], files[name] = h, data
	}
}

func (r *release) archiveHasAll(t *testing.T) {
	top := "iqgate_9.8.7_linux_" + r.archs[0]
	f, err := os.Open(filepath.Join(r.out, top+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	headers, files := untar(t, z)
	for _, name := range []string{"LICENSE", "systemd/iqnode@.service", "systemd/iqrouter.service", "systemd/iqnode.env", "systemd/iqgate.sysusers"} {
		if len(files[top+"/"+name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	for _, p := range programs {
		name := top + "/bin/" + p
		if h := headers[name]; h == nil || h.Mode != 0o755 || h.Uid != 0 || !h.ModTime.Equal(r.time) || !bytes.Equal(files[name], r.read(t, p)) {
			t.Errorf("%s: %v", name, h)
		}
	}
}

func (r *release) read(t *testing.T, program string) []byte {
	t.Helper()
	data, err := os.ReadFile(r.program(r.archs[0], program))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// load reads the image's tar file back as any tool for OCI images does.
func (r *release) load(t *testing.T) v1.Image {
	t.Helper()
	f, err := os.Open(filepath.Join(r.out, "iqgate_9.8.7_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	dir := t.TempDir()
	_, files := untar(t, f)
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := top.IndexManifest()
	if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "9.8.7" {
		t.Fatalf("index %v, %v", m, err)
	}
	index, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	m, err = index.IndexManifest()
	if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Platform.String() != "linux/"+r.archs[0] {
		t.Fatalf("platforms %v, %v", m, err)
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func (r *release) imageIsAsTheDockerfileMakesIt(t *testing.T) {
	img := r.load(t)
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := readDockerfile(t, filepath.Join(r.source, "Dockerfile"))
	c := file.Config
	var ports []string
	for port := range c.ExposedPorts {
		ports = append(ports, strings.TrimSuffix(port, "/tcp"))
	}
	slices.Sort(ports)
	if c.User != want.user || c.User != "65532:65532" || !slices.Equal(c.Cmd, want.cmd) || len(c.Entrypoint) > 0 || !slices.Equal(ports, want.ports) || c.WorkingDir != want.workdir {
		t.Errorf("image %+v, Dockerfile %+v", c, want)
	}
	if file.Architecture != r.archs[0] || file.OS != "linux" || !file.Created.Equal(r.time) || c.Labels["org.opencontainers.image.revision"] != testCommit {
		t.Errorf("image %+v", file)
	}

	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	headers, files := untar(t, content)
	state := strings.TrimSuffix(stateDir, "/")
	for _, p := range programs {
		name := "usr/bin/" + p
		if h := headers[name]; h == nil || h.Mode != 0o755 || h.Uid != 0 || !bytes.Equal(files[name], r.read(t, p)) {
			t.Errorf("%s: %v", name, h)
		}
	}
	// Nobody but root writes what is there, but for the folder of the state and the scratch.
	for name, h := range headers {
		free := name == state || name == "home/nonroot" || name == "tmp"
		if owned := h.Uid == imageUser; owned != (free && name != "tmp") || !free && h.Mode&0o022 != 0 {
			t.Errorf("%s belongs to %d, mode %o", name, h.Uid, h.Mode)
		}
	}
	if headers[state] == nil || "/"+state != want.state {
		t.Errorf("the state's folder is %q, that of the Dockerfile %q", stateDir, want.state)
	}
	pool := x509.NewCertPool()
	if n := bytes.Count(files[rootsFile], []byte("BEGIN CERTIFICATE")); !pool.AppendCertsFromPEM(files[rootsFile]) || n < 100 {
		t.Errorf("%s has %d certificates", rootsFile, n)
	}
	if !slices.Contains(c.Env, "SSL_CERT_FILE=/"+rootsFile) || !slices.Contains(c.Env, "PATH=/usr/bin") {
		t.Errorf("environment %v", c.Env)
	}
	if !strings.Contains(string(files["etc/passwd"]), "nonroot:x:65532:65532:") {
		t.Errorf("etc/passwd: %s", files["etc/passwd"])
	}
}

// dockerImage is what the last stage of the Dockerfile says.
type dockerImage struct {
	user, workdir, state string
	cmd, ports           []string
}

func readDockerfile(t *testing.T, path string) dockerImage {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	tree, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 || !strings.HasPrefix(stages[1].BaseName, "gcr.io/distroless/static") {
		t.Fatalf("stages %v", stages)
	}
	var d dockerImage
	for _, c := range stages[1].Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			d.user = c.User
		case *instructions.WorkdirCommand:
			d.workdir = c.Path
		case *instructions.CmdCommand:
			d.cmd = c.CmdLine
		case *instructions.ExposeCommand:
			d.ports = append(d.ports, c.Ports...)
		case *instructions.CopyCommand:
			if c.Chown == "65532:65532" {
				d.state = c.DestPath
			} else if c.DestPath != "/usr/bin/" {
				t.Errorf("the Dockerfile copies to %s", c.DestPath)
			}
		}
	}
	for _, c := range stages[0].Commands {
		run, ok := c.(*instructions.RunCommand)
		if !ok || !strings.Contains(run.String(), "go build") {
			continue
		}
		for _, part := range []string{"CGO_ENABLED=0", "-trimpath", linked + ".version=$VERSION", linked + ".commit=$COMMIT", "./cmd/" + strings.Join(programs, " ./cmd/")} {
			if !strings.Contains(run.String(), part) {
				t.Errorf("the Dockerfile builds without %s: %s", part, run)
			}
		}
		return d
	}
	t.Error("the Dockerfile builds nothing")
	return d
}

func (r *release) checksumsAreThose(t *testing.T) {
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", checksumFile)
	check.Dir = r.out
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(r.out, checksumFile))
	if err != nil {
		t.Fatal(err)
	}
	// Programs and their SBOMs, the archive, the image.
	if n := strings.Count(string(text), "\n"); n != 2*len(programs)+2 {
		t.Errorf("%d sums:\n%s", n, text)
	}
}

// sameBytesAgain packs again what was packed: a release can be checked by whoever builds it again.
func (r *release) sameBytesAgain(t *testing.T) {
	names := []string{"iqgate_9.8.7_linux_" + r.archs[0] + ".tar.gz", "iqgate_9.8.7_image.tar"}
	before := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = data
	}
	if err := errors.Join(r.archive(r.archs[0]), r.image()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if data, err := os.ReadFile(filepath.Join(r.out, name)); err != nil || !bytes.Equal(data, before[name]) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
}

// TestReleaseRefusesAProgramThatIsNone of the kind that was asked for: this test has paths of who built it.
func TestReleaseRefusesAProgramThatIsNone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	err = inspect(self, other)
	for _, want := range []string{"-trimpath", "GOARCH", "is for"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something about %s", err, want)
		}
	}
}

func TestReleaseRefusesBadFlags(t *testing.T) {
	err := (&release{version: "v1 -X x", archs: []string{"mips"}, commit: "a b"}).run(t.Context())
	for _, want := range []string{"-out", "-version", "-commit", `-arch "mips"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something about %s", err, want)
		}
	}
}
