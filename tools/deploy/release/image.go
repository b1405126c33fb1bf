package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	imageUser = 65532 // nonroot, as in distroless images
	rootsFile = "etc/ssl/certs/ca-certificates.crt"
	stateDir  = "var/lib/iqnode/" // a volume begins with the owner of what it covers
)

// image writes one image of all architectures as a tar file that holds an OCI layout.
func (r *release) image() error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range r.archs {
		img, err := r.imageFor(arch)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "iqgate-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// The layout has one entry, named after the version: the index of the architectures.
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.number()})); err != nil {
		return err
	}
	return packLayout(dir, filepath.Join(r.out, fmt.Sprintf("iqgate_%s_image.tar", r.number())), r.time)
}

// packLayout writes the files of an OCI layout into a tar file.
func packLayout(dir, file string, at time.Time) error {
	var members []member
	for _, pattern := range []string{"oci-layout", "index.json", "blobs/*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			members = append(members, member{name: filepath.ToSlash(name), from: path, mode: 0o644})
		}
	}
	return create(file, func(w io.Writer) error { return writeTar(w, members, at) })
}

// imageFor is the image for one architecture: what every program needs, and the programs, each in a layer, so that an upgrade
// pulls the programs alone.
func (r *release) imageFor(arch string) (v1.Image, error) {
	base := []member{
		{name: "etc/passwd", text: "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n", mode: 0o644},
		{name: "etc/group", text: "root:x:0:\nnonroot:x:65532:\n", mode: 0o644},
		{name: "home/nonroot/", mode: 0o700, uid: imageUser},
		{name: rootsFile, text: roots(), mode: 0o644},
		{name: "tmp/", mode: 0o1777},
		{name: stateDir, mode: 0o755, uid: imageUser},
	}
	var bin []member
	for _, p := range programs {
		bin = append(bin, member{name: "usr/bin/" + p, from: r.program(arch, p), mode: 0o755})
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, members := range [][]member{base, bin} {
		layer, err := r.layer(members)
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: []string{"certificates, users and folders", "programs"}[i]},
		})
		if err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Author = "linux", arch, v1.Time{Time: r.time}, ""
	file.Config = v1.Config{
		User:         strconv.Itoa(imageUser) + ":" + strconv.Itoa(imageUser),
		Env:          []string{"PATH=/usr/bin", "SSL_CERT_FILE=/" + rootsFile},
		Cmd:          []string{"/usr/bin/iqnode", "--help"},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{"7000/tcp": {}, "7070/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "iqgate",
			"org.opencontainers.image.source":   "https://github.com/iqgate/iqgate",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  r.number(),
			"org.opencontainers.image.revision": r.commit,
		},
	}
	return mutate.ConfigFile(img, file)
}

func (r *release) layer(members []member) (v1.Layer, error) {
	var text bytes.Buffer
	if err := writeTar(&text, members, r.time); err != nil {
		return nil, err
	}
	if text.Len() == 0 {
		return nil, errors.New("an empty layer")
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching) // or each look at the layer would pack it again
}

// roots are the authorities that Mozilla trusts without a condition: a file of certificates cannot say conditions.
func roots() string {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
		}
	}
	return text.String()
}
