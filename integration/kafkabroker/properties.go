package kafkabroker

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"
)

//go:embed server.properties
var serverProperties string

// placement says where one broker listens and keeps its data.
type placement struct {
	dataDir        string
	port           int // of clients
	controllerPort int // of the KRaft controller
	more           []listener
}

// render writes the broker's configuration in the format of java.util.Properties: the lines of base, the overrides,
// and what follows from the placement, which nobody may override.
func render(base string, at placement, overrides map[string]string) (string, error) {
	if strings.ContainsRune(at.dataDir, ',') {
		return "", fmt.Errorf("kafka data folder %q: log.dirs cannot name a folder with a comma", at.dataDir)
	}
	placed := map[string]string{
		"log.dirs":                 at.dataDir,
		"listeners":                fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", at.port, at.controllerPort),
		"advertised.listeners":     fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", at.port),
		"controller.quorum.voters": fmt.Sprintf("1@127.0.0.1:%d", at.controllerPort),
	}
	all := make(map[string]string)
	for line := range strings.Lines(base) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			all[key] = value
		}
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		_, taken := placed[key]
		switch {
		case key == "":
			errs = append(errs, errors.New("option Properties: a key is empty"))
		case taken || key == "node.id" || key == "process.roles":
			errs = append(errs, fmt.Errorf("option Properties[%q] = %q: this property is the starter's own", key, overrides[key]))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	maps.Copy(all, overrides)
	maps.Copy(all, placed)
	addListeners(all, at.more)
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "%s=%s\n", escapeProperty(key, true), escapeProperty(all[key], false))
	}
	return out.String(), nil
}

// escapeProperty writes a key or a value so that java.util.Properties reads back the same text: it knows Latin-1
// only, drops leading blanks, and takes '=', ':' and blanks for the end of a key.
func escapeProperty(text string, key bool) string {
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == '\\', key && strings.ContainsRune("=:#! ", r), i == 0 && strings.ContainsRune("#! ", r):
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < ' ' || r > '~':
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// clusterIDIn returns the cluster id that a data folder's meta.properties names.
func clusterIDIn(metaProperties string) (string, bool) {
	for line := range strings.Lines(metaProperties) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster.id="); ok && id != "" {
			return id, true
		}
	}
	return "", false
}

// metaFile is the file by which Kafka marks a folder as formatted.
func metaFile(dataDir string) string { return filepath.Join(dataDir, "meta.properties") }
