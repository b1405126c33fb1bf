package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A member is a file or, where its name ends with /, a folder of a tar file.
type member struct {
	name string
	from string // file to take the content from; else text is it
	text string
	mode int64
	uid  int // and gid
}

// writeTar writes members by their names, at one time, so that the same ones give the same bytes.
func writeTar(w io.Writer, members []member, at time.Time) error {
	t := tar.NewWriter(w)
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for _, m := range members {
		if err := writeMember(t, m, at); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return t.Close()
}

func writeMember(t *tar.Writer, m member, at time.Time) error {
	h := &tar.Header{Name: m.name, Mode: m.mode, Uid: m.uid, Gid: m.uid, ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX, Size: int64(len(m.text))}
	if strings.HasSuffix(m.name, "/") {
		h.Typeflag = tar.TypeDir
	}
	var content io.Reader = strings.NewReader(m.text)
	if m.from != "" {
		f, err := os.Open(m.from)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h.Size, content = info.Size(), f
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, content)
	return err
}

// archive packs the programs of one architecture with what is needed to run them by systemd.
func (r *release) archive(arch string) error {
	top := fmt.Sprintf("iqgate_%s_linux_%s", r.number(), arch)
	var members []member
	for _, p := range programs {
		members = append(members, member{name: top + "/bin/" + p, from: r.program(arch, p), mode: 0o755})
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
		members = append(members, member{name: top + "/" + name, from: filepath.Join(r.source, name), mode: 0o644})
	}
	units, err := filepath.Glob(filepath.Join(r.source, "deploy", "systemd", "*"))
	if err != nil {
		return err
	}
	for _, path := range units {
		members = append(members, member{name: top + "/systemd/" + filepath.Base(path), from: path, mode: 0o644})
	}
	return create(filepath.Join(r.out, top+".tar.gz"), func(f io.Writer) error {
		z := gzip.NewWriter(f)
		return errors.Join(writeTar(z, members, r.time), z.Close())
	})
}

// create writes a file.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
