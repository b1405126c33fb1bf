// Package configtest has the tests that each program with settings passes.
package configtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/cmd/internal/config"
)

// defaultIn matches the default that a field's comment tells.
var defaultIn = regexp.MustCompile(`Default:? (127\.0\.0\.1:[0-9]+|MODE_ACTIVE|the active|-?[0-9][0-9,]*(?: MiB|ms|s|m)?)`)

// DefaultsAreDocumented compares the defaults of a program's settings with those that the comments of the Config struct in source
// tell: else the help and the package's documentation differ. At least least of them must be found.
func DefaultsAreDocumented(t *testing.T, p *config.Program, source string, least int) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			if m := defaultIn.FindStringSubmatch(field.Doc.Text()); m != nil {
				documented[field.Names[0].Name] = strings.NewReplacer(",", "", " MiB", "MiB", "MODE_ACTIVE", "active", "the active", "active").Replace(m[1])
			}
		}
		return false
	})
	compared := 0
	for _, g := range p.Groups {
		for _, s := range g.Settings {
			want, ok := documented[s.Field]
			if !ok {
				continue
			}
			if compared++; s.Default != want {
				t.Errorf("%s: default %q, %s documents %q for %s", s.Name, s.Default, source, want, s.Field)
			}
		}
	}
	if compared < least {
		t.Errorf("only %d defaults were found in %s", compared, source)
	}
}

// DocumentationIsCurrent compares what "make generate" has written into the folder docs with the program's settings.
func DocumentationIsCurrent(t *testing.T, p *config.Program, docs string) {
	t.Helper()
	for _, g := range config.GeneratedOf(p.Name) {
		text, err := os.ReadFile(filepath.Join(docs, g.File))
		if err != nil {
			t.Fatal(err)
		}
		want := p.Schema()
		if g.Command == "doc" {
			want = p.Markdown()
		}
		if now, err := g.Into(string(text), want); err != nil || now != string(text) {
			t.Errorf("%s is not what the settings of %s say (%v): run 'make generate'", g.File, p.Name, err)
		}
	}
}
